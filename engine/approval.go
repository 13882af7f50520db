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
	Risk        Risk            `json:"risk,omitempty"` // of a permission, as far as it can be told
	State       agent.AskState  `json:"state"`
	Decision    *agent.Decision `json:"decision,omitempty"`
	CreatedAt   time.Time       `json:"createdAt"`
	DecidedAt   *time.Time      `json:"decidedAt,omitempty"`
}

// Settlement is a decision with all that has to be true at the same moment.
type Settlement struct {
	Approval Approval // as decided
	Command  Command  // the order to the runner
	Audit    []Audit
	Rule     *Rule  // made of the decision; nil: it is not remembered
	UsedRule string // the rule that decided; empty: somebody did
}

// ApprovalFilter selects approvals. Zero fields select everything.
type ApprovalFilter struct {
	ExecutionID string
	OpenOnly    bool
}
