package claude

import (
	"strconv"

	"github.com/threadmill/threadmill/engine/agent"
)

// texts turns streamed pieces and whole blocks into entries. The whole block is the
// truth: the pieces only come earlier, and after a broken stream they are void.
type texts struct {
	message string          // that is streamed
	open    map[int]*stream // its blocks by index, until they were told as a whole
	order   []int           // the indexes in the order of their beginning
	extra   int             // names blocks that were not streamed
}

// stream is a block of which pieces were told.
type stream struct {
	id   string
	kind agent.Kind
	said bool
}

func newTexts() texts { return texts{open: map[int]*stream{}} }

// event takes a streamed event of the main conversation.
func (t *texts) event(e *evStream) []agent.Entry {
	ev := &e.Event
	switch ev.Type {
	case "message_start":
		told := t.drop()
		t.message = ev.Message.ID
		return told
	case "content_block_start":
		t.begin(ev.Index, kindOf(ev.Block.Type))
	case "content_block_delta":
		return t.piece(ev.Index, ev.Delta.Text+ev.Delta.Thinking)
	}
	return nil
}

func kindOf(blockType string) agent.Kind {
	switch blockType {
	case "text":
		return agent.KindAssistant
	case "thinking":
		return agent.KindThinking
	}
	return ""
}

func (t *texts) begin(index int, kind agent.Kind) {
	if kind == "" {
		return
	}
	t.open[index] = &stream{id: t.message + "/" + strconv.Itoa(index), kind: kind}
	t.order = append(t.order, index)
}

func (t *texts) piece(index int, text string) []agent.Entry {
	s := t.open[index]
	if s == nil || text == "" {
		return nil
	}
	s.said = true
	return []agent.Entry{{Kind: s.kind, ID: s.id, Append: true, Content: text}}
}

// whole takes a block of text that is complete.
func (t *texts) whole(message string, kind agent.Kind, text string) []agent.Entry {
	var told []agent.Entry
	if message != t.message {
		told = t.drop()
		t.message = message
	}
	id := t.match(kind)
	if id == "" {
		t.extra++
		id = message + "/+" + strconv.Itoa(t.extra)
	}
	if text == "" {
		return told
	}
	return append(told, agent.Entry{Kind: kind, ID: id, Content: text})
}

// match finds the streamed block that a whole one completes: they come in order.
func (t *texts) match(kind agent.Kind) (id string) {
	for i, index := range t.order {
		if s := t.open[index]; s.kind == kind {
			delete(t.open, index)
			t.order = append(t.order[:i:i], t.order[i+1:]...)
			return s.id
		}
	}
	return ""
}

// drop takes back the pieces of a message that will not be completed: its answer comes
// again, under another name.
func (t *texts) drop() []agent.Entry {
	var told []agent.Entry
	for _, index := range t.order {
		if s := t.open[index]; s.said {
			told = append(told, agent.Entry{Kind: s.kind, ID: s.id, Meta: map[string]any{"abandoned": true}})
		}
	}
	t.keep()
	return told
}

// keep lets the pieces stand: the turn was ended, and they are all that was said.
func (t *texts) keep() {
	clear(t.open)
	t.order = nil
}
