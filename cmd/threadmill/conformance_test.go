//go:build conformance

package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/threadmill/threadmill/adapters/claude/fakeapi"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// claudeConfig has the same CLI three times: with an API key, with a plan's token, and
// signed in nowhere. Whatever it wants of the network beside loopback goes to a proxy
// that does not exist.
const claudeConfig = `
engine:
  max_concurrent: 50
  allowed_working_dirs: [$WORK]
agents:
  keyed: {adapter: claude, binary: $BINARY, working_dir: $WORK, idle_timeout: 20m, approval_timeout: 0s,
    allowed_tools: ["Bash(sleep *)"], env_allowlist: [$COMMON, ANTHROPIC_API_KEY]}
  plan: {adapter: claude, binary: $BINARY, working_dir: $WORK, idle_timeout: 20m, env_allowlist: [$COMMON, CLAUDE_CODE_OAUTH_TOKEN]}
  nobody: {adapter: claude, binary: $BINARY, working_dir: $WORK, idle_timeout: 20m, env_allowlist: [$COMMON]}
`

const claudeCommon = "ANTHROPIC_BASE_URL, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC, HTTPS_PROXY, HTTP_PROXY, NO_PROXY"

// TestClaudeCLI drives real versions of Claude Code, which CLAUDE_CONFORMANCE_BINARIES
// lists, through the whole engine and prints which scenario held with which.
func TestClaudeCLI(t *testing.T) {
	binaries := filepath.SplitList(os.Getenv("CLAUDE_CONFORMANCE_BINARIES"))
	if len(binaries) == 0 {
		t.Fatal("CLAUDE_CONFORMANCE_BINARIES names no CLI: run `make conformance`")
	}
	table := &conformance{held: map[[2]string]bool{}}
	for _, binary := range binaries {
		out, err := exec.Command(binary, "--version").Output()
		must(t, err)
		version, _, _ := strings.Cut(string(out), " ")
		table.versions = append(table.versions, version)
		t.Run(version, func(t *testing.T) {
			shared := startClaude(t, binary)
			t.Run("together", func(t *testing.T) {
				for _, c := range claudeScenarios() {
					t.Run(c.name, func(t *testing.T) {
						t.Parallel()
						if c.alone {
							c.run(startClaude(t, binary))
						} else {
							c.run(shared.with(t))
						}
						table.note(c.name, version, !t.Failed())
					})
				}
			})
		})
	}
	fmt.Println(table)
}

// conformance is what held.
type conformance struct {
	versions []string
	mu       sync.Mutex
	held     map[[2]string]bool
}

func (c *conformance) note(scenario, version string, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[[2]string{scenario, version}] = held
}

// String is the table, for people.
func (c *conformance) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "SCENARIO\t%s\n", strings.Join(c.versions, "\t"))
	for _, scenario := range claudeScenarios() {
		fmt.Fprint(w, scenario.name)
		for _, version := range c.versions {
			word := "FAILED"
			if c.held[[2]string{scenario.name, version}] {
				word = "ok"
			}
			fmt.Fprint(w, "\t", word)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // into memory
	return b.String()
}

// startClaude starts a service whose agents are the CLI, and the API that they talk to.
func startClaude(t *testing.T, binary string) *service {
	t.Helper()
	api := httptest.NewServer(&fakeapi.Server{})
	t.Cleanup(api.Close)
	files := map[string]string{}
	for _, name := range []string{"keyed", "plan", "nobody"} {
		files[name] = fmt.Sprintf("key: %s\nlabel: %s\nagent: %s\nmode: prompt\nprompt: \"{{text}}\"\n", name, name, name)
	}
	config := strings.NewReplacer("$BINARY", binary, "$COMMON", claudeCommon).Replace(claudeConfig)
	s := newService(t, config, files)
	s.env = append(s.env, "ANTHROPIC_BASE_URL="+api.URL, "ANTHROPIC_API_KEY=sk-ant-conformance-key",
		"CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-conformance", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"HTTPS_PROXY=http://127.0.0.1:9", "HTTP_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1")
	s.start()
	return s
}

// claudeScenario is one thing that has to hold.
type claudeScenario struct {
	name  string
	alone bool // it kills the service
	run   func(*service)
}

func claudeScenarios() []claudeScenario {
	return []claudeScenario{
		{name: "single turn", run: claudeAnswers},
		{name: "follow-up while running, queued", run: claudeQueues},
		{name: "follow-up while running, steered", run: claudeSteers},
		{name: "background task begins a turn", run: claudeWaits},
		{name: "approve", run: claudeApproved},
		{name: "approve with other arguments", run: claudeChanged},
		{name: "deny", run: claudeDenied},
		{name: "deny and stop", run: claudeDeniedAndStopped},
		{name: "question", run: claudeAsks},
		{name: "interrupt", run: claudeInterrupted},
		{name: "cancel leaves no process", run: claudeCancelled},
		{name: "resume after exit", run: claudeResumes},
		{name: "fork", run: claudeForks},
		{name: "session that is gone", run: claudeForgotten},
		{name: "usage limit", run: claudeLimited},
		{name: "credentials refused", run: claudeRefused},
		{name: "not signed in", run: claudeNobody},
		{name: "overloaded, then a message", run: claudeOverloaded},
		{name: "resume after the service was killed", alone: true, run: claudeResumesLater},
		{name: "service killed while it asks", alone: true, run: claudeOutlives},
	}
}

func (s *service) claude(text string) engine.Execution {
	s.Helper()
	return s.submit(map[string]any{"capability": "keyed", "text": text})
}

// idle waits until an execution's turn is over.
func (s *service) idle(x engine.Execution) engine.Execution {
	s.Helper()
	return s.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Idle || x.Status.Ended() })
}

// said waits until an entry holds a text.
func (s *service) said(x engine.Execution, text string) {
	s.Helper()
	s.eventually(fmt.Sprintf("#%d says %q", x.Number, text), func() bool { return s.times(x, text) > 0 })
}

// times counts the answers and results that hold a text.
func (s *service) times(x engine.Execution, text string) (n int) {
	s.Helper()
	for _, en := range s.entries(x.ID) {
		result := ""
		if en.Tool != nil {
			result = en.Tool.Result
		}
		if !en.Append && (en.Kind == agent.KindAssistant && strings.Contains(en.Content, text) || strings.Contains(result, text)) {
			n++
		}
	}
	return n
}

func (s *service) message(x engine.Execution, id, text, policy string) {
	s.Helper()
	s.call("POST", "/api/executions/"+x.ID+"/message", map[string]any{"id": id, "text": text, "onBusy": policy}, nil)
}

// asked waits for the one thing that an execution asks.
func (s *service) asked(x engine.Execution) engine.Approval {
	s.Helper()
	var list []engine.Approval
	s.eventually(fmt.Sprintf("#%d asks", x.Number), func() bool {
		list = nil
		return s.try("GET", "/api/approvals?executionId="+x.ID, nil, &list) == nil && len(list) == 1
	})
	return list[0]
}

func (s *service) decide(p engine.Approval, decision map[string]any) {
	s.Helper()
	s.call("POST", "/api/approvals/"+p.ID, decision, nil)
}

// succeeds waits for the end of a turn that leaves the session alive.
func (s *service) succeeds(x engine.Execution) {
	s.Helper()
	if x = s.idle(x); x.Status.Ended() {
		s.Errorf("#%d ended as %s: %s", x.Number, x.Status, x.Error)
	}
}

func claudeAnswers(s *service) {
	x := s.submit(map[string]any{"capability": "keyed", "text": "[do say hello there]", "once": true})
	x = s.wait(x.ID)
	if x.Status != engine.Succeeded || s.times(x, "hello there") != 1 {
		s.Errorf("it ended as %s: %s", x.Status, x.Error)
	}
	if x.SessionRef == "" || x.Usage.OutputTokens == 0 || x.Usage.CostUSD == 0 {
		s.Errorf("session %q, usage %+v", x.SessionRef, x.Usage)
	}
}

func claudeQueues(s *service) {
	x := s.claude("[do trickle 30 50]")
	s.running(x.ID)
	s.message(x, "m1", "[do say the second]", "queue")
	s.message(x, "m2", "[do say the third]", "queue")
	s.said(x, "the third")
	s.succeeds(x)
	for _, text := range []string{"word30", "the second", "the third"} {
		if n := s.times(x, text); n != 1 {
			s.Errorf("%q was said %d times", text, n)
		}
	}
}

func claudeSteers(s *service) {
	x := s.claude("[do steps 1000]")
	s.said(x, "Using Bash.")
	s.message(x, "m1", "[do say turned around]", "steer")
	s.said(x, "turned around")
	s.succeeds(x)
}

// claudeWaits has a run of one message: it is over when its background task, and the turn
// which that begins, are.
func claudeWaits(s *service) {
	x := s.submit(map[string]any{"capability": "keyed", "text": "[do background sleep 3]", "once": true})
	x = s.wait(x.ID)
	if x.Status != engine.Succeeded || s.times(x, "Hello.") != 1 {
		s.Errorf("it ended as %s: %s, and the task's end was answered %d times", x.Status, x.Error, s.times(x, "Hello."))
	}
}

func claudeApproved(s *service) {
	x := s.claude("[do bash touch approved && echo it was approved]")
	s.decide(s.asked(x), map[string]any{"decision": "allow"})
	s.said(x, "Result: it was approved")
	s.succeeds(x)
	if _, err := os.Stat(filepath.Join(s.work(), "approved")); err != nil {
		s.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.work(), ".claude*")); len(left) > 0 {
		s.Errorf("an approval has written rules into the repository: %v", left)
	}
}

func claudeChanged(s *service) {
	x := s.claude("[do bash touch wrong && echo wrong]")
	s.decide(s.asked(x), map[string]any{"decision": "allow", "modifiedInput": map[string]any{"command": "touch right && echo right"}})
	s.said(x, "Result: right")
	s.succeeds(x)
	if _, err := os.Stat(filepath.Join(s.work(), "wrong")); err == nil {
		s.Error("what was not allowed has run")
	}
}

func claudeDenied(s *service) {
	x := s.claude("[do bash touch denied]")
	s.decide(s.asked(x), map[string]any{"decision": "deny", "denyMessage": "not on a Friday"})
	s.said(x, "not on a Friday")
	s.succeeds(x)
	if _, err := os.Stat(filepath.Join(s.work(), "denied")); err == nil {
		s.Error("what was denied has run")
	}
}

func claudeDeniedAndStopped(s *service) {
	x := s.claude("[do bash touch stopped]")
	s.decide(s.asked(x), map[string]any{"decision": "deny", "denyMessage": "stop", "interrupt": true})
	s.succeeds(x)
	s.message(x, "m1", "[do say still here]", "queue")
	s.said(x, "still here")
}

func claudeAsks(s *service) {
	x := s.claude("[do ask Which colour?|Red|Blue]")
	p := s.asked(x)
	if p.Kind != agent.KindQuestion || len(p.Ask.Questions) != 1 || len(p.Ask.Questions[0].Choices) != 2 {
		s.Fatalf("it asks %+v", p)
	}
	s.decide(p, map[string]any{"answers": map[string]string{"Which colour?": "Blue"}})
	s.said(x, `"Which colour?"="Blue"`)
	s.succeeds(x)
}

func claudeInterrupted(s *service) {
	x := s.claude("[do steps 1000]")
	s.said(x, "Using Bash.")
	s.call("POST", "/api/executions/"+x.ID+"/interrupt", nil, nil)
	s.succeeds(x)
	s.message(x, "m1", "[do say after it]", "queue")
	s.said(x, "after it")
}

func claudeCancelled(s *service) {
	x := s.claude("[do steps 1000]")
	s.said(x, "Using Bash.")
	s.call("POST", "/api/executions/"+x.ID+"/cancel", nil, nil)
	x = s.wait(x.ID)
	if x.Status != engine.Cancelled || x.Left != 0 {
		s.Errorf("it ended as %s with %d left", x.Status, x.Left)
	}
	if pids := left(s, x.ID); len(pids) > 0 {
		s.Errorf("processes are left: %v", pids)
	}
}

// tell has an execution that was told a word and has ended.
func (s *service) tell(word string) engine.Execution {
	s.Helper()
	x := s.submit(map[string]any{"capability": "keyed", "text": "[do say " + word + "]", "once": true})
	if x = s.wait(x.ID); x.Status != engine.Succeeded {
		s.Fatalf("it ended as %s: %s", x.Status, x.Error)
	}
	return x
}

func (s *service) recall(first engine.Execution, word string, fork bool) engine.Execution {
	s.Helper()
	body := map[string]any{"parentId": first.ID, "resume": !fork, "fork": fork, "text": "[do recall]"}
	x := s.submit(body)
	s.said(x, "You said: "+word)
	return s.idle(x)
}

func claudeResumes(s *service) {
	first := s.tell("heron")
	x := s.recall(first, "heron", false)
	if x.SessionRef != first.SessionRef {
		s.Errorf("session %s was resumed as %s", first.SessionRef, x.SessionRef)
	}
	if x.Usage.OutputTokens != first.Usage.OutputTokens {
		s.Errorf("one turn after a resume used %+v, one before it %+v", x.Usage, first.Usage)
	}
}

func claudeForks(s *service) {
	first := s.tell("otter")
	x := s.recall(first, "otter", true)
	if x.SessionRef == first.SessionRef || x.SessionRef == "" {
		s.Errorf("the fork of session %s is %q", first.SessionRef, x.SessionRef)
	}
}

func claudeForgotten(s *service) {
	first := s.tell("lost")
	files, err := filepath.Glob(filepath.Join(s.home, "home/.claude/projects/*", first.SessionRef+".jsonl"))
	if err != nil || len(files) != 1 {
		s.Fatalf("the session's files are %v (%v)", files, err)
	}
	must(s, os.Remove(files[0]))
	x := s.submit(map[string]any{"parentId": first.ID, "resume": true, "text": "[do recall]"})
	s.fails(x, agent.ReasonNotFound, "No conversation found")
}

// fails waits for a bad end and holds it against what should be said of it.
func (s *service) fails(x engine.Execution, reason agent.Reason, says string) engine.Execution {
	s.Helper()
	x = s.wait(x.ID)
	if x.Status != engine.Failed || x.Reason != reason || !strings.Contains(x.Error, says) {
		s.Errorf("it ended as %s (%s): %s; want %s: %s", x.Status, x.Reason, x.Error, reason, says)
	}
	return x
}

func claudeLimited(s *service) {
	x := s.submit(map[string]any{"capability": "plan", "text": "[do limit 3600]"})
	s.fails(x, agent.ReasonAgentLimit, "limit")
	knows := slices.ContainsFunc(s.entries(x.ID), func(en agent.Entry) bool {
		return en.Failure != nil && en.Failure.ResetsAt != nil
	})
	if !knows {
		s.Error("it does not say when the limit resets")
	}
}

func claudeRefused(s *service) {
	s.fails(s.claude("[do error 401]"), agent.ReasonAuth, "claude /login")
}

func claudeNobody(s *service) {
	s.fails(s.submit(map[string]any{"capability": "nobody", "text": "[do say hello]"}), agent.ReasonAuth, "claude /login")
}

// claudeOverloaded has a turn that fails for the moment: the session lives on.
func claudeOverloaded(s *service) {
	x := s.claude("[do error 529]")
	s.succeeds(x)
	s.message(x, "m1", "[do say it works again]", "queue")
	s.said(x, "it works again")
}

func claudeResumesLater(s *service) {
	first := s.tell("badger")
	s.kill()
	s.start()
	s.recall(first, "badger", false)
}

// claudeOutlives kills the service between question and answer.
func claudeOutlives(s *service) {
	x := s.claude("[do bash touch outlived && echo it was outlived]")
	p := s.asked(x)
	before := s.running(x.ID)
	s.kill()
	s.start()
	if again := s.asked(x); again.ID != p.ID {
		s.Errorf("it asked %s and asks %s", p.ID, again.ID)
	}
	s.decide(p, map[string]any{"decision": "allow"})
	s.said(x, "Result: it was outlived")
	after := s.idle(x)
	if after.Pid != before.Pid {
		s.Errorf("the pid was %d and is %d", before.Pid, after.Pid)
	}
	asks := 0
	for _, en := range s.entries(x.ID) {
		if en.Kind == agent.KindApproval && en.Ask.State == agent.AskOpen {
			asks++
		}
	}
	if asks != 1 {
		s.Errorf("it asked %d times", asks)
	}
}
