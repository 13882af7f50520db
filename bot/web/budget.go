package web

import (
	"net/http"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

func (s *Server) showBudget(r *http.Request) (answer, error) {
	report, err := s.engine.Budget(r.Context())
	return answer{data: report}, err
}

func (s *Server) extendBudget(r *http.Request) (answer, error) {
	var b api.ExtendRequest
	if err := readBody(r, &b, false); err != nil {
		return answer{}, err
	}
	lines, err := s.engine.ExtendBudget(r.Context(), engine.ExtendRequest{
		Scope: b.Scope, ID: b.ID, USD: b.USD, Key: b.IdempotencyKey, By: actor(r),
	})
	return answer{data: notNil(lines)}, err
}
