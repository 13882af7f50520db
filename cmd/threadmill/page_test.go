package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/threadmill/threadmill/bot/web/browsertest"
)

// signInLink is what `serve` prints for people.
var signInLink = regexp.MustCompile(`http://\S+/#token=\S+`)

// openPage opens the newest link that the service has printed, as a new user would.
func (s *service) openPage() *browsertest.Browser {
	s.Helper()
	var link string
	s.eventually("serve prints a link", func() bool {
		links := signInLink.FindAllString(s.log.String(), -1)
		if len(links) > 0 {
			link = links[len(links)-1]
		}
		return link != ""
	})
	b := browsertest.Start(s, 1280, 800)
	b.Open(link)
	b.Until(`document.querySelector("#side") && !document.querySelector("#side").hidden`)
	return b
}

// startDemo starts the demo agent by the page's form.
func startDemo(b *browsertest.Browser, script string) {
	b.Click("#side", "New run")
	b.Until(`document.querySelector("#capability")`)
	browsertest.Eval[bool](b, `(() => { const s = document.querySelector("#capability"); s.value = "demo"; s.dispatchEvent(new Event("change")); return true; })()`)
	b.Type("#f-text", script+"\r")
}

// TestPage is a new user's first quarter of an hour, in one page that is never loaded
// again, while the service is killed and comes back.
func TestPage(t *testing.T) {
	t.Parallel()
	s := newService(t, "", nil)
	s.start()
	b := s.openPage()
	if url := browsertest.Eval[string](b, "location.href"); regexp.MustCompile("token").MatchString(url) {
		t.Errorf("the address still is %s", url)
	}
	browsertest.Eval[bool](b, "window.stayed = true")

	startDemo(b, "say **hello** there; approve echo approved; approve echo approved")
	b.Sees(".assistant strong", "hello")
	b.Sees(".ask.open .risk", "risk")
	b.Until(`(() => { const s = document.querySelector(".ask.open select:enabled"); if (s) s.selectedIndex = 1; return s; })()`) // in this run
	b.Click(".ask.open", "Allow")
	b.Sees(".talk", "Allowed by web")
	b.Sees(".ask", "Allowed by rule") // which answers the second one
	b.Sees(".tool", "echo approved")
	b.Sees(".run:last-child .badge", "idle")

	b.Type(".composer textarea", "lines 40000 50ms\r") // reply to the idle one
	b.Sees(".assistant", "line 3")
	b.Type(".composer textarea", "say steered\r") // and while it works
	b.Sees(".waiting", "say steered")
	b.Click(".card", "Log")
	b.Sees(".log", "line 5")
	b.Click(".card", "Cancel")
	b.Sees(".run:last-child .card", "cancelled")
	b.Sees(".run:last-child .card", "0 left")

	b.Type(".composer textarea", "ask Tea? | yes | no\r") // reply to the finished one
	b.Sees(".said", "resumed as #2")
	b.Sees(".ask.question.open", "Tea?")
	before := s.get("2")
	s.kill()
	b.Until(`!document.querySelector("#connection").hidden`)
	b.Sees("#connection", "Reconnecting")
	s.start()
	b.Until(`document.querySelector("#connection").hidden`)
	b.Click(".ask.open", "yes")
	b.Sees(".ask.question", "Answered by web: yes")
	b.Sees(".run:last-child .badge", "idle")
	if n := browsertest.Eval[int](b, `document.querySelectorAll(".ask.question").length`); n != 1 {
		t.Errorf("the question is shown %d times", n)
	}
	if after := s.get("2"); after.Pid != before.Pid || after.Pid == 0 {
		t.Errorf("the agent's pid was %d and is %d", before.Pid, after.Pid)
	}
	if !browsertest.Eval[bool](b, "window.stayed === true") {
		t.Error("the page was loaded again")
	}
	if p := b.Problems(); p != "" {
		t.Errorf("the page has problems:\n%s", p)
	}
}

// TestScreenshots makes the pictures of the documentation; `make screenshots` runs it.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("THREADMILL_SCREENSHOTS")
	if dir == "" {
		t.Skip("THREADMILL_SCREENSHOTS names no directory")
	}
	s := newService(t, "", nil)
	s.start()
	b := s.openPage()
	show := func(title, script string) {
		s.submit(map[string]any{"capability": "demo", "title": title, "text": script})
		b.Sees("#threads", title)
		browsertest.Eval[bool](b, `document.querySelector("#threads a").click() ?? true`)
		b.Until(`document.querySelector(".run .talk .entry")`)
	}
	show("Run the tests of the parser", "say All 214 tests pass.")
	show("Nightly build", "fail The build machine is out of disk space")
	show("Watch the deployment", "lines 3000 1s")
	show("Why do uploads time out?", "think The handler retries without a bound, so a slow disk becomes a storm.; tool ls; say I found the cause: `retry()` has **no upper bound**, so each failure doubles the load.; edit notes.md Retry at most five times, with a growing pause.; usage 0.42 18400; approve go test ./...")
	b.Sees(".ask.open", "Allow")
	b.Until(`document.querySelectorAll("#threads a").length === 4 && document.querySelector("#threads .asks")`)
	shoot := func(name string) {
		must(t, os.WriteFile(filepath.Join(dir, name+".png"), b.Screenshot(), 0o644))
	}
	b.Size(1280, 800)
	shoot("desktop")
	b.Dark(true)
	shoot("dark")
	b.Size(390, 800)
	shoot("phone")
	b.Dark(false)
	for name, hash := range map[string]string{"list": "#/", "runs": "#/runs", "agents": "#/agents", "new": "#/new/tail-file"} {
		b.Size(map[string]int{"list": 360}[name]+map[bool]int{true: 0, false: 1280}[name == "list"], 800)
		browsertest.Eval[string](b, "location.hash = "+strconv.Quote(hash))
		b.Until(`document.querySelector(".panel")`)
		if os.Getenv("THREADMILL_SCREENSHOTS_ALL") != "" {
			shoot(name)
		}
	}
}

// TestPageDecides answers what agents ask in each way that there is, on a phone.
func TestPageDecides(t *testing.T) {
	t.Parallel()
	s := newService(t, "", nil)
	s.start()
	b := s.openPage()
	b.Size(360, 740)
	startDemo(b, "approve echo one; approve echo two; approve echo three")
	b.Sees(".ask.open", "echo one")
	b.Click(".ask.open", "Deny with a reason…")
	b.Type(".ask.open input", "not <b>today</b>")
	b.Click(".ask.open", "Deny")
	b.Sees(".talk", "Denied by web: not <b>today</b>")
	b.Sees(".ask.open", "echo two")
	b.Click(".ask.open", "Change…")
	b.Until(`(() => { const t = document.querySelector(".ask.open textarea"); if (t) t.value = t.value.replace("two", "2"); return t; })()`)
	b.Click(".ask.open", "Allow with these arguments")
	b.Sees(".talk", "with changed arguments")
	b.Sees(".tool.success", "echo 2")
	b.Sees(".ask.open", "echo three")
	if wide := browsertest.Eval[int](b, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("the page is %d pixels wide", wide)
	}
	b.Click(".ask.open", "Deny with a reason…")
	b.Click(".ask.open", "Deny and stop the turn")
	b.Sees(".talk", "The turn was stopped")
	b.Sees(".run .badge", "idle")
	b.Click(".card", "Log")
	b.Sees(".log", "echo") // what was shown there
	b.Click(".card", "Cancel")
	b.Sees(".run .badge", "cancelled")
	b.Click(".card", "Resume")
	b.Until(`document.activeElement.matches(".composer textarea")`)
	b.Keys("ignore-term; lines 40000 50ms\r")
	b.Sees(".run:last-child .assistant", "line 2")
	b.Click(".run:last-child .card", "Interrupt")
	b.Sees(".run:last-child .badge", "idle")
	b.Click(".thread", "‹")
	b.Until(`location.hash === "#/" && document.querySelector("#side").checkVisibility()`)
	b.Click("#side", "Runs")
	b.Sees("tbody", "#1")
	b.Click(".chips", "cancelled")
	b.Until(`document.querySelectorAll("tbody tr").length === 1`)
	b.Keys("j")
	b.Until(`document.querySelector(".composer textarea")?.placeholder === "Message to #2"`)
	if p := b.Problems(); p != "" {
		t.Errorf("the page has problems:\n%s", p)
	}
}
