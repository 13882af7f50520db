package web

import (
	"bytes"
	"net/http"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func (s *Server) listApprovals(r *http.Request) (answer, error) {
	q := readQuery(r)
	f := engine.ApprovalFilter{ExecutionID: q.text("executionId"), OpenOnly: q.oneOf("state", "open", "all") == "open"}
	if err := q.done(); err != nil {
		return answer{}, err
	}
	if f.ExecutionID != "" {
		x, err := s.engine.Execution(r.Context(), f.ExecutionID) // it may be the number
		if err != nil {
			return answer{}, err
		}
		f.ExecutionID = x.ID
	}
	list, err := s.engine.Approvals(r.Context(), f)
	return answer{data: notNil(list)}, err
}

func (s *Server) showApproval(r *http.Request) (answer, error) {
	a, err := s.engine.Approval(r.Context(), r.PathValue("id"))
	return answer{data: a}, err
}

func (s *Server) decideApproval(r *http.Request) (answer, error) {
	var b api.DecisionRequest
	if err := readBody(r, &b, false); err != nil {
		return answer{}, err
	}
	if err := checkDecision(b); err != nil {
		return answer{}, err
	}
	keep, err := remembered(b)
	if err != nil {
		return answer{}, err
	}
	a, err := s.engine.Decide(r.Context(), r.PathValue("id"), agent.Decision{
		Allow: b.Decision != api.Deny, Message: b.DenyMessage, ModifiedInput: b.ModifiedInput,
		Interrupt: b.Interrupt, Answers: b.Answers, By: actor(r),
	}, keep)
	return answer{data: a}, err
}

// remembered is what the request wants to be remembered; nil: nothing.
func remembered(b api.DecisionRequest) (*engine.Remember, error) {
	if b.Scope == "" {
		if b.Persist != "" || b.Tool != "" || b.Match != "" {
			return nil, engine.Errorf(engine.CodeInvalid, "persist, tool and match are about what is remembered: give its scope, too")
		}
		return nil, nil //nolint:nilnil // nothing is remembered
	}
	keep := &engine.Remember{Scope: b.Scope, Tool: b.Tool, Match: b.Match}
	switch b.Persist {
	case "", "8h":
		keep.For = workday
	case api.Forever:
	default:
		return nil, engine.Errorf(engine.CodeInvalid, "field \"persist\" is %q: it can be 8h, forever", b.Persist)
	}
	return keep, nil
}

// workday is how long a decision is remembered that is not remembered for ever.
const workday = 8 * time.Hour

func (s *Server) listRules(r *http.Request) (answer, error) {
	list, err := s.engine.Rules(r.Context())
	return answer{data: notNil(list)}, err
}

func (s *Server) removeRule(r *http.Request) (answer, error) {
	rule, err := s.engine.RemoveRule(r.Context(), r.PathValue("id"), actor(r))
	return answer{data: rule}, err
}

// checkDecision refuses decisions that say two things at once: guessing which one was
// meant could allow what somebody wanted to deny.
func checkDecision(b api.DecisionRequest) error {
	input := bytes.TrimSpace(b.ModifiedInput)
	switch {
	case b.Decision == "" && len(b.Answers) > 0:
	case b.Decision != api.Allow && b.Decision != api.Deny:
		return engine.Errorf(engine.CodeInvalid, "field \"decision\" is %q: it can be allow, deny", b.Decision)
	}
	switch {
	case b.Decision == api.Deny && (len(input) > 0 || len(b.Answers) > 0):
		return engine.Errorf(engine.CodeInvalid, "modifiedInput and answers belong to allow, not to deny")
	case b.Decision != api.Deny && (b.DenyMessage != "" || b.Interrupt):
		return engine.Errorf(engine.CodeInvalid, "denyMessage and interrupt belong to deny, not to allow")
	case len(input) > 0 && input[0] != '{':
		return engine.Errorf(engine.CodeInvalid, "field \"modifiedInput\": expected an object")
	}
	return nil
}
