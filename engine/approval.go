package engine

import (
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// Approval is a permission or an answer that an agent waits for. It is decided
// once; the first decision wins.
type Approval struct {
	ID          string          `json:"id"` // ours; opaque
	ExecutionID string          `json:"executionId"`
	AskID       string          `json:"askId"` // the agent's
	Kind        agent.Kind      `json:"kind"`  // approval or question
	Text        string          `json:"text"`  // what the agent wants, CommonMark
	Ask         agent.Ask       `json:"ask"`
	State       agent.AskState  `json:"state"`
	Decision    *agent.Decision `json:"decision,omitempty"`
	CreatedAt   time.Time       `json:"createdAt"`
	DecidedAt   *time.Time      `json:"decidedAt,omitempty"`
}

// ApprovalFilter selects approvals. Zero fields select everything.
type ApprovalFilter struct {
	ExecutionID string
	OpenOnly    bool
}
