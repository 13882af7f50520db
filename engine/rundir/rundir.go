// Package rundir is the contract between a runner and whoever looks after it: the
// directory of one execution, the formats of the files in it, and the runner's
// control socket. The files are the truth about a run; a service that was away
// learns from them alone what happened meanwhile.
//
// The package knows neither agents' protocols nor tmux nor a database.
package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// Version is the version of this contract. A runner and a service that speak
// different versions refuse each other at the handshake, with both numbers.
const Version = 1

// The files of an execution's directory (mode 0700; the files 0600).
const (
	SpecFile       = "spec.json"     // the resolved request; written before the start
	InfoFile       = "runner.json"   // who runs it and where to reach it; written before the agent starts
	LockFile       = "runner.lock"   // held by the runner for life, so there is never a second one
	EventsFile     = "events.jsonl"  // entries, one a line, seq gapless from 1
	LogFile        = "output.log"    // "[stdout] …" lines; see Log for rotation
	WireFile       = "wire.jsonl"    // the agent's protocol, size-capped
	CastFile       = "terminal.cast" // the pane as asciicast v2
	ResultFile     = "result.json"   // how it ended; written last, by rename
	AttachmentsDir = "attachments"   // files handed to the agent
	OutputDir      = "output"        // files the agent wants sent back
)

// Spec is everything a runner needs to know about its execution. Secrets are not
// in it: they reach the runner through a file that it removes, see [Secrets].
type Spec struct {
	Version     int       `json:"version"`
	ExecutionID string    `json:"executionId"`
	Number      int64     `json:"number"`
	Title       string    `json:"title"` // for the head of the pane
	Agent       string    `json:"agent"`
	Adapter     string    `json:"adapter"`
	Argv        []string  `json:"argv"`
	Dir         string    `json:"dir"`
	Prompt      string    `json:"prompt,omitempty"`
	PromptID    string    `json:"promptId,omitempty"` // the message id of the prompt
	From        string    `json:"from,omitempty"`     // who asked for it
	Attachments []string  `json:"attachments,omitempty"`
	SessionRef  string    `json:"sessionRef,omitempty"`
	Fork        bool      `json:"fork,omitempty"`
	Permission  string    `json:"permission,omitempty"`
	OnBusy      string    `json:"onBusy,omitempty"` // queue, steer or reject
	CreatedAt   time.Time `json:"createdAt"`

	Options         map[string]any `json:"options,omitempty"`
	Timeout         Duration       `json:"timeout,omitempty"`           // of the whole run; 0: none
	IdleTimeout     Duration       `json:"idleTimeout,omitempty"`       // 0: end with the first turn
	ApprovalTimeout Duration       `json:"approvalTimeout,omitempty"`   // 0: wait for ever
	OnTimeout       string         `json:"onApprovalTimeout,omitempty"` // what then: deny (or empty), wait or remind
	KillGrace       Duration       `json:"killGrace,omitempty"`         // between SIGTERM and SIGKILL; 0: 5 s
	MaxOutputBytes  int64          `json:"maxOutputBytes,omitempty"`    // of the output log; 0: no limit
	RotateBytes     int64          `json:"rotateBytes,omitempty"`       // size of one log segment; 0: 10 MB

	Socket  string `json:"socket"`            // where the runner listens
	Secrets string `json:"secrets,omitempty"` // path of the Secrets file
}

// What happens to an ask that nobody decides within [Spec.ApprovalTimeout].
const (
	TimeoutDeny   = "deny"   // the agent is told that nobody did, and goes on without
	TimeoutWait   = "wait"   // nothing: there is no deadline
	TimeoutRemind = "remind" // it stays open and is asked again, with a new deadline
)

// Secrets is what must not stay on disk: the agent's complete environment and the
// values to mask. The host writes it (0600, in the short run directory, on memory
// where the system offers that), the runner reads and removes it at once.
type Secrets struct {
	Env  []string `json:"env"`
	Mask []string `json:"mask"`
}

// Info tells how to find a runner. It is written before the agent is started, in
// one step with the lock, so an agent without Info cannot exist.
type Info struct {
	Version   int       `json:"version"`
	Pid       int       `json:"pid"`
	StartTime string    `json:"startTime"` // the process's start as the kernel tells it, against reuse of the pid
	Socket    string    `json:"socket"`
	StartedAt time.Time `json:"startedAt"`
	Pane      bool      `json:"pane"` // whether it was started on a terminal
}

// Status is how an execution ended.
type Status string

// The ends of an execution, as a runner sees them.
const (
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	TimedOut  Status = "timed_out"
	Cancelled Status = "cancelled"
)

// Result is how a run ended, and that nothing of it is left.
type Result struct {
	Version    int          `json:"version"`
	Status     Status       `json:"status"`
	Reason     agent.Reason `json:"reason,omitempty"`
	Message    string       `json:"message,omitempty"` // one sentence for people
	ResetsAt   *time.Time   `json:"resetsAt,omitempty"`
	ExitCode   *int         `json:"exitCode,omitempty"`
	Signal     string       `json:"signal,omitempty"`
	SessionRef string       `json:"sessionRef,omitempty"`
	Usage      agent.Usage  `json:"usage"`
	LastSeq    int64        `json:"lastSeq"`
	LogBytes   int64        `json:"logBytes"`
	LogLines   int64        `json:"logLines"`
	StartedAt  time.Time    `json:"startedAt"`
	EndedAt    time.Time    `json:"endedAt"`
	Ended      int          `json:"ended"`               // processes that had to be signalled at the end
	Left       int          `json:"left"`                // processes that could not be ended; 0 unless the kernel refuses
	StopAfter  Duration     `json:"stopAfter,omitempty"` // from the request to stop until none was left
	By         string       `json:"by,omitempty"`        // who cancelled it
	Unsent     []string     `json:"unsent,omitempty"`    // ids of messages that were queued here and never reached the agent
}

// Duration is a time.Duration that is written as text ("1m30s").
type Duration time.Duration

// MarshalJSON writes the duration as Go writes durations.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// Create makes the directory of an execution with its subdirectories and writes
// the spec. It may be repeated: the last spec wins until a runner has started.
func Create(dir string, spec Spec) error {
	for _, d := range []string{dir, filepath.Join(dir, AttachmentsDir), filepath.Join(dir, OutputDir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("create the execution's directory: %w", err)
		}
	}
	spec.Version = Version
	return WriteJSON(filepath.Join(dir, SpecFile), spec)
}

// ReadSpec reads the spec of the execution in dir and refuses another version.
func ReadSpec(dir string) (Spec, error) {
	var s Spec
	if err := ReadJSON(filepath.Join(dir, SpecFile), &s); err != nil {
		return s, err
	}
	if s.Version != Version {
		return s, fmt.Errorf("%s: contract version %d, this binary speaks %d", filepath.Join(dir, SpecFile), s.Version, Version)
	}
	return s, nil
}

// ErrDamaged is wrapped by [ReadJSON] for a file that is there and cannot be understood.
var ErrDamaged = errors.New("the file is damaged")

// ReadInfo reads who runs the execution in dir; ok is false where no runner has
// started yet. A damaged file, which a power failure can leave, says that there was a
// runner and names none: nobody will ever find out more.
func ReadInfo(dir string) (info Info, ok bool, err error) {
	err = ReadJSON(filepath.Join(dir, InfoFile), &info)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Info{}, false, nil
	case errors.Is(err, ErrDamaged):
		return Info{}, true, nil
	}
	return info, err == nil, err
}

// ReadResult reads how the execution in dir ended; ok is false while it has not. Where
// the file is damaged it has failed: that it has ended is certain, how is not.
func ReadResult(dir string) (res Result, ok bool, err error) {
	err = ReadJSON(filepath.Join(dir, ResultFile), &res)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Result{}, false, nil
	case errors.Is(err, ErrDamaged):
		return Result{
			Version: Version, Status: Failed, Reason: agent.ReasonAgentError, EndedAt: time.Now().UTC(),
			Message: "it has ended, but how is not known: " + ResultFile + " is damaged",
		}, true, nil
	}
	return res, err == nil, err
}

// WriteJSON writes v to path by rename, so a reader sees the whole of it or nothing.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeByRename(path, append(b, '\n'))
}

// ReadJSON reads what WriteJSON wrote; a missing file is os.ErrNotExist, one that is no
// such JSON ErrDamaged.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read %s: %w: %w", path, ErrDamaged, err)
	}
	return nil
}

func writeByRename(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // a no-op once it was renamed
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
