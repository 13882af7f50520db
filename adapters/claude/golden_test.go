package claude

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/agent"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recorded is a line of a transcript of the real CLI.
type recorded struct {
	Dir  string `json:"dir"` // in, out, err, note
	MS   int64  `json:"t_ms"`
	Line string `json:"line"`
}

// player plays a transcript: what was said to the CLI then is said to the teller now.
type player struct {
	t      *testing.T
	teller *teller
	now    time.Time
	told   []agent.Entry
}

func (p *player) play(r recorded) {
	p.t.Helper()
	p.now = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).Add(time.Duration(r.MS) * time.Millisecond)
	switch r.Dir {
	case "in":
		p.said(r.Line)
	case "out":
		event, err := parse([]byte(r.Line))
		if err != nil {
			p.told = append(p.told, p.teller.garbage([]byte(r.Line), err)...)
			return
		}
		if event != nil {
			p.told = append(p.told, p.teller.take(event)...)
		}
	}
}

// said does for a line to the CLI what the session does when it writes one.
func (p *player) said(line string) {
	p.t.Helper()
	var in struct {
		Type     string `json:"type"`
		UUID     string `json:"uuid"`
		Response struct {
			RequestID string `json:"request_id"`
			Response  struct {
				Behavior string `json:"behavior"`
			} `json:"response"`
		} `json:"response"`
	}
	if json.Unmarshal([]byte(line), &in) != nil {
		return
	}
	switch {
	case in.Type == "user" && in.UUID != "":
		p.teller.turn.sent(in.UUID)
	case in.Type == "control_response":
		id := in.Response.RequestID
		if x := p.teller.asks[id]; x != nil && in.Response.Response.Behavior == allow {
			p.teller.allowed[id] = x.toolUse
		}
		delete(p.teller.asks, id)
	}
	p.told = append(p.told, p.teller.turn.news()...)
}

func readTranscript(tb testing.TB, path string) (lines []recorded) {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			tb.Fatal(err)
		}
		lines = append(lines, r)
	}
	return lines
}

// TestTranscripts holds what is told of recorded conversations with the real CLI
// against what was read and found good. With -update it is written anew.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*/*.jsonl")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d transcripts (%v)", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimPrefix(strings.TrimSuffix(path, ".jsonl"), "testdata/"), func(t *testing.T) {
			t.Parallel()
			p := &player{t: t}
			p.teller = newTeller("/work-dir", func() time.Time { return p.now })
			p.told = p.teller.started(42, "")
			for _, r := range readTranscript(t, path) {
				p.play(r)
			}
			p.told = append(p.told, p.teller.ended()...)
			compare(t, strings.TrimSuffix(path, ".jsonl")+".golden", p.told)
		})
	}
}

func compare(t *testing.T, golden string, told []agent.Entry) {
	t.Helper()
	var got bytes.Buffer
	for _, e := range told {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(bytes.Replace(line, []byte(`"seq":0,"time":"0001-01-01T00:00:00Z",`), nil, 1))
		got.WriteByte('\n')
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
