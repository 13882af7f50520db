package engine

import "time"

// Audit is a row about something that somebody did, or tried to.
type Audit struct {
	ID      int64          `json:"id"`
	At      time.Time      `json:"at"`
	Actor   string         `json:"actor"`            // web, slack:U…, schedule:NAME, threadmill
	Action  string         `json:"action"`           // "execution.create", "approval.decide", …
	Object  string         `json:"object,omitempty"` // the id of what it was done to
	Allowed bool           `json:"allowed"`
	Detail  map[string]any `json:"detail,omitempty"`
}

// AuditFilter selects audit rows, newest first.
type AuditFilter struct {
	Object   string
	Actor    string
	Before   int64 // only rows with a smaller id; 0: from the newest
	PageSize int   // 1–500; 0 means 100
}
