package demo

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// word is the first word of a step: what the step does.
type word string

const (
	wSay        word = "say"
	wThink      word = "think"
	wLines      word = "lines"
	wSleep      word = "sleep"
	wTool       word = "tool"
	wApprove    word = "approve"
	wAsk        word = "ask"
	wEdit       word = "edit"
	wUsage      word = "usage"
	wLimit      word = "limit"
	wFail       word = "fail"
	wCrash      word = "crash"
	wIgnoreTerm word = "ignore-term"
	wFork       word = "fork"
	wFlood      word = "flood"
	wEnv        word = "env"
	wRecall     word = "recall"
	wTalk       word = "" // anything else: Text is answered
)

// step is one parsed step of a script.
type step struct {
	word    word
	text    string        // say, think, fail, edit, talk; tool and approve: the command line as written
	argv    []string      // tool, approve
	name    string        // edit: the file
	count   int64         // lines, flood, usage (tokens)
	usd     float64       // usage
	wait    time.Duration // lines (between two), sleep, limit, fork
	choices []string      // ask
}

// forkLife is how long the child of a fork lives when the script does not say.
const forkLife = time.Hour

// parseScript reads a message as steps. A message in which no step is understood is
// one thing that was said, whatever punctuation it has.
func parseScript(text string) []step {
	var steps []step
	understood := false
	for _, part := range splitSteps(text) {
		s, ok := parseStep(part)
		understood = understood || ok
		steps = append(steps, s)
	}
	if !understood {
		return []step{{word: wTalk, text: strings.TrimSpace(text)}}
	}
	return steps
}

// splitSteps cuts text at newlines and semicolons; `\;` stands for a semicolon, and
// one in the quotes of a command is the command's.
func splitSteps(text string) []string {
	var parts []string
	for line := range strings.Lines(text) {
		for line != "" {
			var part string
			part, line = cutStep(strings.TrimSpace(line))
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

// cutStep cuts the first step off a line.
func cutStep(line string) (step, rest string) {
	var b strings.Builder
	quotes, quote := hasCommand(line), byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && i+1 < len(line) && quote != '\'':
			if i++; line[i] != ';' {
				b.WriteByte(c) // it is the command's, or just a backslash
			}
			c = line[i]
		case c == quote:
			quote = 0
		case quotes && quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == ';' && quote == 0:
			return b.String(), line[i+1:]
		}
		b.WriteByte(c)
	}
	return b.String(), ""
}

// cutWord cuts off the first word.
func cutWord(text string) (first, rest string) {
	end := strings.IndexAny(text, " \t")
	if end < 0 {
		return text, ""
	}
	return text[:end], strings.TrimSpace(text[end:])
}

// hasCommand tells whether a step is a command, in which quotes mean something.
func hasCommand(line string) bool {
	first, _ := cutWord(line)
	return strings.EqualFold(first, string(wTool)) || strings.EqualFold(first, string(wApprove))
}

// parseStep reads one step; ok is false where it is not one and has to be answered as
// plain text.
func parseStep(text string) (s step, ok bool) {
	first, rest := cutWord(text)
	s = step{word: word(strings.ToLower(first)), text: rest}
	parse := parserOf(s.word)
	if parse == nil || !parse(&s, rest) {
		return step{word: wTalk, text: text}, false
	}
	return s, true
}

// parserOf returns what reads the rest of a word's step; it answers false where the
// rest makes no sense after that word. Nil: there is no such word.
func parserOf(w word) func(*step, string) bool {
	switch w {
	case wSay, wThink:
		return someText
	case wTool, wApprove:
		return parseCommand
	case wLines:
		return parseLines
	case wSleep, wLimit:
		return parseSleep
	case wAsk:
		return parseAsk
	case wEdit:
		return parseEdit
	case wUsage:
		return parseUsage
	case wFlood:
		return parseFlood
	case wFork:
		return parseFork
	case wFail:
		return anyText
	case wCrash, wIgnoreTerm, wEnv, wRecall:
		return noText
	case wTalk: // is what the others are not
	}
	return nil
}

func anyText(*step, string) bool         { return true }
func someText(_ *step, rest string) bool { return rest != "" }
func noText(_ *step, rest string) bool   { return rest == "" }

func parseCommand(s *step, rest string) bool {
	argv, err := splitArgv(rest)
	s.argv = argv
	return err == nil && len(argv) > 0
}

func parseLines(s *step, rest string) bool {
	f := strings.Fields(rest)
	if len(f) == 0 || len(f) > 2 {
		return false
	}
	n, err := strconv.ParseInt(f[0], 10, 64)
	s.count = n
	if len(f) == 2 {
		d, ok := parseWait(f[1])
		s.wait = d
		return ok && err == nil && n >= 0
	}
	return err == nil && n >= 0
}

func parseSleep(s *step, rest string) (ok bool) {
	s.wait, ok = parseWait(rest)
	return ok
}

func parseFork(s *step, rest string) bool {
	if rest == "" {
		s.wait = forkLife
		return true
	}
	return parseSleep(s, rest)
}

// parseWait reads a duration as Go writes it ("1m30s"), or a number of seconds.
func parseWait(text string) (time.Duration, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, d >= 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > math.MaxInt64/float64(time.Second)/2 {
		return 0, false
	}
	return time.Duration(n * float64(time.Second)), true
}

func parseAsk(s *step, rest string) bool {
	parts := strings.Split(rest, "|")
	s.text = strings.TrimSpace(parts[0])
	for _, p := range parts[1:] {
		if p = strings.TrimSpace(p); p != "" {
			s.choices = append(s.choices, p)
		}
	}
	return s.text != ""
}

func parseEdit(s *step, rest string) bool {
	s.name, s.text = cutWord(rest)
	return s.name != "" && s.text != ""
}

func parseUsage(s *step, rest string) bool {
	f := strings.Fields(rest)
	if len(f) != 2 {
		return false
	}
	usd, err := strconv.ParseFloat(f[0], 64)
	tokens, err2 := strconv.ParseInt(f[1], 10, 64)
	s.usd, s.count = usd, tokens
	return err == nil && err2 == nil && usd >= 0 && !math.IsInf(usd, 0) && tokens >= 0
}

func parseFlood(s *step, rest string) bool {
	n, ok := parseSize(rest)
	s.count = n
	return ok
}

// parseSize reads a number of bytes, with k, M or G for powers of 1024.
func parseSize(text string) (int64, bool) {
	shift := 0
	if n := len(text); n > 0 {
		switch text[n-1] {
		case 'k', 'K':
			shift = 10
		case 'm', 'M':
			shift = 20
		case 'g', 'G':
			shift = 30
		}
	}
	if shift > 0 {
		text = text[:len(text)-1]
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n << shift, err == nil && n >= 0 && n <= math.MaxInt64>>shift
}
