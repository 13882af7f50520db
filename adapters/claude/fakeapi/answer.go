package fakeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// What every answer claims to have used.
const (
	inputTokens  = 100
	outputTokens = 20
)

// answer is one response, streamed or whole.
type answer struct {
	w      http.ResponseWriter
	r      *http.Request
	stream bool
	model  string
	id     string
	whole  []map[string]any // the blocks so far
}

func (a *answer) send(o order, c conversation) {
	a.begin()
	stop := "end_turn"
	switch o.word {
	case "think":
		a.block(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, []map[string]any{
			{"type": "thinking_delta", "thinking": o.rest}, {"type": "signature_delta", "signature": "c2lnbmVk"},
		}, 0)
		a.text([]string{"I thought."}, 0)
	case "trickle":
		words, pause := trickle(o.rest)
		a.text(words, pause)
	case "recall":
		a.text([]string{c.said()}, 0)
	case "bash", "background", "steps", "write", "ask":
		name, input := o.tool()
		a.text([]string{"Using " + name + "."}, 0)
		a.tool(name, input)
		stop = "tool_use"
	default:
		a.text(halves(o.rest), 0)
	}
	a.end(stop)
}

// halves cuts a text in two, so that it is streamed.
func halves(text string) []string {
	runes := []rune(text)
	return []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}
}

func trickle(rest string) (words []string, pause time.Duration) {
	var n, ms int
	_, _ = fmt.Sscan(rest, &n, &ms) // none: nothing is said
	for i := range n {
		words = append(words, "word"+strconv.Itoa(i+1)+" ")
	}
	return words, time.Duration(ms) * time.Millisecond
}

func usage(out int) map[string]any {
	return map[string]any{
		"input_tokens": inputTokens, "output_tokens": out,
		"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
	}
}

func (a *answer) message(content, stop any, out int) map[string]any {
	return map[string]any{
		"id": a.id, "type": "message", "role": "assistant", "model": a.model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": usage(out),
	}
}

func (a *answer) begin() {
	if !a.stream {
		return
	}
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.event("message_start", map[string]any{"message": a.message([]any{}, nil, 1)})
}

func (a *answer) text(parts []string, pause time.Duration) {
	var deltas []map[string]any
	for _, part := range parts {
		deltas = append(deltas, map[string]any{"type": "text_delta", "text": part})
	}
	a.block(map[string]any{"type": "text", "text": ""}, deltas, pause)
	a.whole[len(a.whole)-1]["text"] = strings.Join(parts, "")
}

func (a *answer) tool(name string, input any) {
	arguments, err := json.Marshal(input)
	if err != nil {
		panic(err) // they are maps of strings
	}
	block := map[string]any{"type": "tool_use", "id": "toolu_" + a.id, "name": name, "input": map[string]any{}}
	a.block(block, []map[string]any{{"type": "input_json_delta", "partial_json": string(arguments)}}, 0)
	a.whole[len(a.whole)-1]["input"] = input
}

// block sends a block in pieces, with a pause after each.
func (a *answer) block(start map[string]any, deltas []map[string]any, pause time.Duration) {
	index := len(a.whole)
	a.whole = append(a.whole, start)
	a.event("content_block_start", map[string]any{"index": index, "content_block": start})
	for _, delta := range deltas {
		a.event("content_block_delta", map[string]any{"index": index, "delta": delta})
		a.rest(pause)
	}
	a.event("content_block_stop", map[string]any{"index": index})
}

func (a *answer) rest(pause time.Duration) {
	if pause == 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.r.Context().Done():
	}
}

func (a *answer) end(stop string) {
	if !a.stream {
		a.w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(a.w).Encode(a.message(a.whole, stop, outputTokens)) // the client may have gone
		return
	}
	a.event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage(outputTokens),
	})
	a.event("message_stop", map[string]any{})
}

// event sends an event; a client that has gone is noticed by its next request.
func (a *answer) event(name string, fields map[string]any) {
	if !a.stream || a.r.Context().Err() != nil {
		return
	}
	fields["type"] = name
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // they are maps of strings and numbers
	}
	fmt.Fprintf(a.w, "event: %s\ndata: %s\n\n", name, data)
	if f, ok := a.w.(http.Flusher); ok {
		f.Flush()
	}
}
