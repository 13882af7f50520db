package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
	"github.com/threadmill/threadmill/engine/rundir"
)

// journal writes down what happens in a run: entries into the events file and, for
// people, into the log and the pane. It is used by the run's loop alone.
type journal struct {
	events *rundir.EventWriter
	mask   *redact.Masker
	script *transcript
	failed func(error) // told of an events file that cannot be written
	fault  string      // what the newest error entry says

	// Text that arrives in pieces is masked as one text, or a secret that lies across two
	// pieces would pass. The streams stand in the order in which they began.
	streams []*textStream
}

// textStream is the text of one thing that arrives in pieces.
type textStream struct {
	kind agent.Kind
	id   string
	mask *redact.Stream
}

// record writes an entry down.
func (j *journal) record(e agent.Entry) {
	if e.ID != "" {
		if e.Append {
			e.Content = j.piece(e)
			if e.Content == "" && bare(e) {
				return // all of it is held back until it is clear that it is no secret
			}
		} else {
			j.forget(e.Kind, e.ID) // this entry takes the place of the pieces
		}
	}
	j.append(e)
}

// settle writes what is held back: nothing more comes for the texts that have begun.
func (j *journal) settle() {
	for _, s := range j.streams {
		if rest := s.mask.Flush(nil); len(rest) > 0 {
			j.append(agent.Entry{Kind: s.kind, ID: s.id, Append: true, Content: string(rest)})
		}
	}
	j.streams = nil
	j.script.settle()
}

func (j *journal) append(e agent.Entry) {
	stored, err := j.events.Append(e, j.mask)
	if _, disk := errors.AsType[*fs.PathError](err); disk {
		j.failed(err) // a smaller one might just fit, and the loss would go unnoticed
		return
	}
	if err != nil {
		// What an adapter made up may not be writable as JSON. That it is missing is said.
		note := agent.Entry{
			Kind:    agent.KindError,
			Content: fmt.Sprintf("an entry of kind %q could not be recorded: %v", e.Kind, err),
		}
		var again error
		if stored, again = j.events.Append(note, j.mask); again != nil {
			j.failed(errors.Join(err, again))
			return
		}
	}
	if stored.Kind == agent.KindError {
		j.fault = strings.TrimSpace(stored.Content)
	}
	j.script.entry(stored)
}

func (j *journal) piece(e agent.Entry) string {
	for _, s := range j.streams {
		if s.kind == e.Kind && s.id == e.ID {
			return string(s.mask.Write(nil, []byte(e.Content)))
		}
	}
	s := &textStream{kind: e.Kind, id: e.ID, mask: j.mask.Stream()}
	j.streams = append(j.streams, s)
	return string(s.mask.Write(nil, []byte(e.Content)))
}

func (j *journal) forget(kind agent.Kind, id string) {
	for i, s := range j.streams {
		if s.kind == kind && s.id == id {
			j.streams = append(j.streams[:i], j.streams[i+1:]...)
			return
		}
	}
}

// bare reports whether an entry holds nothing but its content.
func bare(e agent.Entry) bool {
	return e.Tool == nil && e.Ask == nil && e.Usage == nil && e.Status == nil && e.Failure == nil && len(e.Meta) == 0
}
