// Package fakeapi is a Messages API for tests: it answers as the text of the last
// message says, so that the real CLI can be driven with no account and no network but
// loopback. It knows the API's shape and no agent.
//
// A message says what to do between brackets: [do say hello]. The words are
//
//	say TEXT            answers TEXT
//	think TEXT          shows TEXT as reasoning, then answers "I thought."
//	trickle N MS        answers N words, one every MS milliseconds
//	bash COMMAND        calls the tool Bash
//	background COMMAND  calls the tool Bash, to run it in the background
//	steps N             calls the tool Bash N times, each for a third of a second
//	write FILE TEXT     calls the tool Write
//	ask QUESTION|A|B    calls the tool AskUserQuestion
//	recall              repeats every "say" of the conversation
//	error STATUS        refuses with that status, for as long as it is asked
//	limit SECONDS       refuses as a plan's usage limit does, which resets then
//
// The result of a tool is answered with "Result: …", and anything else with "Hello.".
package fakeapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxRequest bounds what is read of a request.
const maxRequest = 64 << 20

// Server is the API. Its zero value is ready.
type Server struct {
	ids atomic.Int64

	mu   sync.Mutex
	seen []string
}

// Seen returns what messages asked it to do, in their order, retries included.
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/messages") {
		refuse(w, http.StatusNotFound)
		return
	}
	var in conversation
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&in); err != nil {
		refuse(w, http.StatusBadRequest)
		return
	}
	order := in.order()
	s.note(order)
	if status, ok := order.refusal(); ok {
		order.limit(w.Header())
		refuse(w, status)
		return
	}
	a := &answer{w: w, r: r, stream: in.Stream, model: in.Model, id: fmt.Sprintf("msg_%d", s.ids.Add(1))}
	a.send(order, in)
}

func (s *Server) note(o order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, o.word+" "+o.rest)
}

// kindOf names an error by its status.
func kindOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case statusOverloaded:
		return "overloaded_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// statusOverloaded is the API's own.
const statusOverloaded = 529

func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client may have gone
		"type": "error", "error": map[string]string{"type": kindOf(status), "message": "refused as the message said"},
	})
}

// conversation is a request.
type conversation struct {
	Model    string    `json:"model"`
	Stream   bool      `json:"stream"`
	Messages []message `json:"messages"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type piece struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
}

func (m message) pieces() []piece {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []piece{{Type: "text", Text: text}}
	}
	var list []piece
	_ = json.Unmarshal(m.Content, &list) // neither: it says nothing
	return list
}

// order is what a message asks for.
type order struct{ word, rest string }

var orders = regexp.MustCompile(`\[do (\w+) ?([^\]]*)\]`)

func ordersIn(text string) (list []order) {
	for _, m := range orders.FindAllStringSubmatch(text, -1) {
		list = append(list, order{m[1], m[2]})
	}
	return list
}

// order finds what is asked for since the last answer: the last order, or else the
// answer to a tool's result.
func (c conversation) order() order {
	found := order{"say", "Hello."}
	start := 0
	for i, m := range c.Messages {
		if m.Role == "assistant" {
			start = i + 1
		}
	}
	for _, m := range c.Messages[start:] {
		for _, p := range m.pieces() {
			if p.Type == "tool_result" {
				found = c.after(p)
			}
		}
	}
	for _, m := range c.Messages[start:] {
		for _, p := range m.pieces() {
			if list := ordersIn(p.Text); p.Type == "text" && len(list) > 0 {
				found = list[len(list)-1]
			}
		}
	}
	return found
}

// after is what follows a tool's result: the next step, where there is one.
func (c conversation) after(result piece) order {
	var last order
	var done int
	for _, m := range c.Messages {
		for _, p := range m.pieces() {
			if list := ordersIn(p.Text); m.Role == "user" && len(list) > 0 {
				last, done = list[len(list)-1], 0
			}
			if p.Type == "tool_result" {
				done++
			}
		}
	}
	if n, err := strconv.Atoi(last.rest); last.word == "steps" && err == nil && done < n {
		return last
	}
	return order{"say", "Result: " + resultText(result)}
}

func resultText(p piece) string {
	var all []string
	for _, inner := range (message{Content: p.Content}).pieces() {
		all = append(all, inner.Text)
	}
	return strings.Join(all, " ")
}

// said lists what the conversation was asked to say.
func (c conversation) said() string {
	var all []string
	for _, m := range c.Messages {
		for _, p := range m.pieces() {
			for _, o := range ordersIn(p.Text) {
				if o.word == "say" && m.Role == "user" {
					all = append(all, o.rest)
				}
			}
		}
	}
	return "You said: " + strings.Join(all, ", ")
}

func (o order) refusal() (status int, ok bool) {
	switch o.word {
	case "error":
		status, err := strconv.Atoi(o.rest)
		return status, err == nil
	case "limit":
		return http.StatusTooManyRequests, true
	}
	return 0, false
}

// limit says how a plan's usage limit stands.
func (o order) limit(h http.Header) {
	seconds, err := strconv.Atoi(o.rest)
	if o.word != "limit" || err != nil {
		return
	}
	at := strconv.FormatInt(time.Now().Add(time.Duration(seconds)*time.Second).Unix(), 10)
	h.Set("anthropic-ratelimit-unified-status", "rejected")
	h.Set("anthropic-ratelimit-unified-reset", at)
	h.Set("anthropic-ratelimit-unified-representative-claim", "five_hour")
	h.Set("anthropic-ratelimit-unified-5h-reset", at)
	h.Set("anthropic-ratelimit-unified-5h-utilization", "1")
}

// tool returns the name and arguments of the tool that the order calls.
func (o order) tool() (name string, input any) {
	first, rest, _ := strings.Cut(o.rest, " ")
	switch o.word {
	case "steps":
		return "Bash", map[string]any{"command": "sleep 0.3", "description": "A step"}
	case "background":
		return "Bash", map[string]any{"command": o.rest, "description": "In the background", "run_in_background": true}
	case "bash":
		return "Bash", map[string]any{"command": o.rest, "description": "As the message said"}
	case "write":
		return "Write", map[string]any{"file_path": first, "content": rest + "\n"}
	case "ask":
		parts := strings.Split(o.rest, "|")
		var options []map[string]string
		for _, label := range parts[1:] {
			options = append(options, map[string]string{"label": label, "description": label + " it is"})
		}
		return "AskUserQuestion", map[string]any{"questions": []any{map[string]any{
			"question": parts[0], "header": "Choice", "multiSelect": false, "options": options,
		}}}
	}
	return "", nil
}
