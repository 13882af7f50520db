package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/threadmill/threadmill/engine"
)

// colour is an SGR code.
type colour string

// The colours in use.
const (
	plain  colour = ""
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	blue   colour = "34"
	grey   colour = "90"
)

// colours reports whether text to w may be coloured.
func (a *app) colours(w io.Writer) bool {
	return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" && isTerminal(w)
}

// paint colours s where w is a terminal that wants it.
func (a *app) paint(w io.Writer, c colour, s string) string {
	if c == plain || s == "" || !a.colours(w) {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// printJSON prints what the API said, for programs.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// cell is one field of a table.
type cell struct {
	text   string
	colour colour
}

// plainRow makes a row of plain text.
func plainRow(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, text := range texts {
		cells[i].text = text
	}
	return cells
}

// columnGap is what stands between the columns of a table.
const columnGap = 2

// table prints rows with aligned columns. The colours do not count as width, which is
// why text/tabwriter cannot do this.
func (a *app) table(rows [][]cell) error {
	var widths []int
	for _, cells := range rows {
		for i, c := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var b strings.Builder
	for _, cells := range rows {
		a.writeRow(&b, cells, widths)
	}
	_, err := io.WriteString(a.out, b.String())
	return err
}

func (a *app) writeRow(b *strings.Builder, cells []cell, widths []int) {
	for i, c := range cells {
		b.WriteString(a.paint(a.out, c.colour, c.text))
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+columnGap))
		}
	}
	b.WriteByte('\n')
}

// head makes the first row of a table.
func head(titles ...string) []cell {
	cells := plainRow(titles...)
	for i := range cells {
		cells[i].colour = grey
	}
	return cells
}

// fields prints name and value of those that have one, aligned.
func (a *app) fields(list ...[2]string) error {
	var rows [][]cell
	for _, f := range list {
		if f[1] != "" {
			rows = append(rows, []cell{{text: f[0], colour: grey}, {text: f[1]}})
		}
	}
	return a.table(rows)
}

// status shows where an execution stands, in colour.
func status(e engine.Execution) cell {
	text := string(e.Status)
	if e.Activity != "" {
		text += ": " + string(e.Activity)
	}
	if e.Reason != "" {
		text += ": " + string(e.Reason)
	}
	if e.Status == engine.Queued && e.NotBefore != nil {
		text += ": parked until " + clock(*e.NotBefore, time.Now())
	}
	return cell{text: text, colour: statusColour(e.Status)}
}

// clock tells the time of a moment, with its day where that is another one.
func clock(at, now time.Time) string {
	at = at.Local()
	if at.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return at.Format("15:04")
	}
	return at.Format("Jan 2 15:04")
}

func statusColour(s engine.Status) colour {
	switch s {
	case engine.Queued:
		return grey
	case engine.Running:
		return blue
	case engine.Cancelling, engine.Cancelled, engine.TimedOut:
		return yellow
	case engine.Succeeded:
		return green
	case engine.Failed:
		return red
	}
	return plain
}

// clean makes text that others wrote safe for a terminal and for one line.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// shorten cuts s to n characters.
func shorten(s string, n int) string {
	runes := []rune(clean(s))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}

// ago tells how long before now something was.
func ago(at, now time.Time) string {
	if d := now.Sub(at); d >= time.Second {
		return roughly(d) + " ago"
	}
	return "just now"
}

// roughly writes a duration in its largest unit, or its largest two below a day.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < day:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d/day))
}

// took tells how long an execution has run.
func took(e engine.Execution, now time.Time) string {
	if e.StartedAt == nil {
		return ""
	}
	if e.EndedAt != nil {
		now = *e.EndedAt
	}
	return roughly(now.Sub(*e.StartedAt))
}

// size writes a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, suffix := float64(n)/unit, 0
	for value >= unit && suffix < len("KMGT")-1 {
		value /= unit
		suffix++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[suffix])
}
