package web_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/browsertest"
	"github.com/threadmill/threadmill/bot/web/page"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// attacks is what an agent might write, by mistake or on purpose. Each would set
// window.pwned where it ran.
var attacks = []string{
	`<script>window.pwned="script"</script>`,
	`<img src=x onerror="window.pwned='onerror'">`,
	`<svg onload="window.pwned='svg'"><style>*{display:none}</style>`,
	`<iframe srcdoc="<script>parent.pwned='iframe'</script>"></iframe>`,
	`[click](javascript:window.pwned='link') [up](JaVaScRiPt:window.pwned=1) ![i](javascript:window.pwned=2)`,
	`[data](data:text/html,<script>window.pwned='data'</script>) [vb](vbscript:x) <javascript:window.pwned=3>`,
	`[break](https://ok.example/"onmouseover="window.pwned='attribute')`,
	"# <b onclick=window.pwned=4>head</b>\n\n| <i onclick=window.pwned=5>a</i> | b |\n|---|---|\n| <script>window.pwned=6</script> | c |",
	"````md\n```js\nwindow.pwned = 7\n```\n<script>window.pwned=8</script>\n````\nafter the fence",
	"@everyone <!channel> <@U123> mail [us](mailto:us@example.com)",
	"\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07shown\x1b]8;;\x07 \x1b]0;title\x07 bell\x07 \x9b5m",
	"safe\u202egnp.exe\u2066x\u2069\u200f end\u0000\ufeff",
	"- > - > - > - > - > - > - > - > - > - > deep\n" + strings.Repeat("> ", 500) + "quote",
	strings.Repeat("*_[`", 5000), strings.Repeat("(", 3000) + strings.Repeat("[a](", 800),
	"bad utf-8: \xff\xfe\xf0\x28\x8c\x28",
}

// hostile writes the attacks in every place where an agent has words.
func hostile(t *testing.T, run *run) {
	t.Helper()
	one := 1
	for i, text := range attacks {
		text = strings.ToValidUTF8(text, "�") // as the runner does
		id := strconv.Itoa(i)
		for _, e := range []agent.Entry{
			{Kind: agent.KindAssistant, ID: "a" + id, Content: text},
			{Kind: agent.KindUser, ID: "u" + id, Content: text},
			{Kind: agent.KindThinking, ID: "th" + id, Content: text},
			{Kind: agent.KindError, Content: text, Failure: &agent.Failure{Reason: agent.ReasonAgentError}},
			{Kind: agent.KindSystem, Content: text},
			{Kind: agent.KindToolUse, ID: "t" + id, Content: text, Tool: &agent.Tool{
				Name: text, Action: agent.ActionCommandRun, Status: agent.ToolFailed, Command: text, Path: text, Diff: "+" + text, Result: text, ExitCode: &one,
			}},
			{Kind: agent.KindApproval, ID: "ap" + id, Content: text, Ask: &agent.Ask{
				State: agent.AskDecided, Tool: text, Input: []byte(`{"x":` + strconv.QuoteToASCII("x") + `}`), Decision: &agent.Decision{Message: text, By: text},
			}},
			{Kind: agent.KindQuestion, ID: "q" + id, Content: text, Ask: &agent.Ask{
				State: agent.AskOpen, Questions: []agent.Question{{Text: text, Choices: []agent.Choice{{Label: text, Description: text}}}},
			}},
		} {
			run.entry(t, e)
		}
		run.log(t, "[stdout] "+strings.ReplaceAll(text, "\n", " "))
	}
}

// visit opens the page with a new link.
func (r *rig) visit(t *testing.T) *browsertest.Browser {
	t.Helper()
	b := browsertest.Start(t, 1000, 700)
	b.Open(r.http.URL + "/#token=" + r.link(t))
	b.Until(`!document.querySelector("#side").hidden`)
	return b
}

// TestNothingThatAnAgentWritesRuns shows hostile text in a real browser.
func TestNothingThatAnAgentWritesRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", `<img src=x onerror="window.pwned='title'"> [x](javascript:window.pwned=9)`)
	hostile(t, run)
	b := r.visit(t)
	browsertest.Eval[string](b, `location.hash = "#/t/`+x.TaskID+`"`)
	b.Sees(".talk > :last-child", "bad utf-8")
	b.Until(`document.querySelectorAll(".talk > .entry").length === ` + strconv.Itoa(8*len(attacks)))
	b.Until(`(() => { const shut = document.querySelectorAll("details:not([open])"); for (const d of shut) d.open = true; return !shut.length; })()`)
	b.Click(".card", "Log")
	b.Sees(".log", "bad utf-8")
	b.Until(`(() => { for (const el of document.querySelectorAll(".talk *, #threads *")) { el.dispatchEvent(new MouseEvent("mouseover", {bubbles: true})); if (el.tagName !== "A" && el.tagName !== "BUTTON") el.dispatchEvent(new MouseEvent("click", {bubbles: true})); } return true; })()`)
	for what, js := range map[string]string{
		"something ran":                `String(window.pwned ?? "")`,
		"elements that may run":        `[...document.querySelectorAll("script, img, svg, iframe, object, embed, base, meta, style, link, form[action]")].filter((e) => !e.closest("head, .brand")).map((e) => e.outerHTML).join()`,
		"handlers in the markup":       `[...document.querySelectorAll("main *, #threads *")].filter((e) => [...e.attributes].some((a) => /^on/i.test(a.name))).map((e) => e.outerHTML).join()`,
		"links to where they must not": `[...document.querySelectorAll(".talk a, #threads a")].filter((a) => !["http:", "https:", "mailto:"].includes(a.protocol) || a.closest(".talk") && a.rel !== "noopener noreferrer nofollow").map((a) => a.outerHTML).join()`,
		"characters that lie":          `(document.body.textContent.match(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g) ?? []).map((c) => c.charCodeAt(0).toString(16)).join()`,
		"a title that was set":         `document.title.replace(/^\(\d+\) /, "") === "Threadmill" ? "" : document.title`,
		"a fence that was left early":  `[...document.querySelectorAll(".assistant pre")].some((p) => p.textContent.includes("pwned = 7") && p.textContent.includes("pwned=8")) ? "" : "yes"`,
	} {
		if got := browsertest.Eval[string](b, js); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
	b.Sees("main", "@everyone <!channel>")
	b.Sees("main", "safe⟨U+202E⟩gnp.exe")
	if p := b.Problems(); p != "" {
		t.Errorf("the page has problems:\n%s", p)
	}
	if got := browsertest.Eval[string](b, `(() => { try { document.body.innerHTML = "<b>x</b>"; return "assigned"; } catch (e) { return e.name; } })()`); got != "TypeError" {
		t.Errorf("markup from a string is %s, although the policy forbids it", got)
	}
}

// TestLongTextsDoNotFreezeThePage shows a megabyte and a line of 200 kB.
func TestLongTextsDoNotFreezeThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	run.entry(t, agent.Entry{Kind: agent.KindAssistant, ID: "line", Content: "begin " + strings.Repeat("x", 200_000) + " end of the line"})
	run.entry(t, agent.Entry{Kind: agent.KindAssistant, ID: "big", Content: strings.Repeat("all **work** and no play\n", 40_000) + "the very end"})
	for i := range 3000 {
		run.entry(t, agent.Entry{Kind: agent.KindAssistant, ID: "s", Append: true, Content: "word" + strconv.Itoa(i) + " "})
	}
	b := r.visit(t)
	browsertest.Eval[string](b, `location.hash = "#/t/`+x.TaskID+`"`)
	b.Sees(".talk > :last-child", "word7")
	b.Click(".talk > :nth-child(2)", "Show all of it (1.0 MB)")
	b.Until(`document.querySelector(".talk").textContent.includes("the very end")`)
	b.Click(".talk > :nth-child(1)", "Show all of it (200 kB)")
	b.Until(`document.querySelector(".talk").textContent.includes("end of the line")`)
	run.entry(t, agent.Entry{Kind: agent.KindAssistant, ID: "last", Content: "still *alive*"})
	b.Sees(".talk em", "alive")
	b.Type(".composer textarea", "hello\r")
	b.Sees(".talk .user", "hello")
	if p := b.Problems(); p != "" {
		t.Errorf("the page has problems:\n%s", p)
	}
}

// TestTheFormShowsWhatIsWrongAtItsField fills in a form, wrongly at first, by keyboard.
func TestTheFormShowsWhatIsWrongAtItsField(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.visit(t)
	b.Keys("n")
	b.Until(`location.hash === "#/new" && document.querySelector("#capability")`)
	browsertest.Eval[bool](b, `(() => { const s = document.querySelector("#capability"); s.value = "echo"; s.dispatchEvent(new Event("change")); return true; })()`)
	b.Type("#f-word", "NO\r")
	b.Sees("#f-word-problem", "does not match")
	b.Until(`document.activeElement.id === "f-word" && document.activeElement.getAttribute("aria-invalid") === "true"`)
	b.Keys("\b\byes\r")
	b.Sees(".run .card", "Echo")
	x := r.await(t, "1", func(s engine.Status) bool { return s == engine.Running })
	if x.Args["word"] != "yes" {
		t.Errorf("it runs with %v", x.Args)
	}
	b.Keys("\x1b") // Escape leaves what has the focus
	b.Keys("/")
	b.Until(`document.activeElement.id === "filter"`)
	b.Keys("zzz")
	b.Sees("#threads", "No thread is called that")
	b.Keys("\x1b")
	b.Until(`document.querySelectorAll("#threads a").length === 1`)
}

// TestThePageComesBack signs out and in again.
func TestThePageComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if _, err := r.client.Create(t.Context(), api.CreateRequest{Capability: "chat", Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	b := r.visit(t)
	b.Sees("#threads", "hello")
	b.Open(r.http.URL) // by the cookie
	b.Sees("#threads", "hello")
	b.Click("#side", "Sign out")
	b.Sees("main", "This browser is not signed in")
	b.Open(r.http.URL + "/?again#token=used-or-wrong")
	b.Sees("#notice", "threadmill link")
	b.Sees("main", "This browser is not signed in")
	browsertest.Eval[string](b, `location.hash = "#token=`+r.link(t)+`"`)
	b.Sees("#threads", "hello")
	b.Until(`!location.href.includes("token")`)
}

func TestThePageIsServedSafely(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	size := 0
	for _, f := range page.Files() {
		path := strings.TrimSuffix(f.Path, "{$}")
		a := r.do(t, request{path: path, anonymous: true})
		policy := a.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "trusted-types 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: the policy is %q", path, policy)
			}
		}
		if a.status != http.StatusOK || a.header.Get("X-Content-Type-Options") != "nosniff" || strings.Contains(a.body, "://") && !strings.HasSuffix(path, ".svg") && !strings.HasSuffix(path, "markdown.js") {
			t.Errorf("%s: %d, or it names another place", path, a.status)
		}
		again := r.do(t, request{path: path, anonymous: true, header: http.Header{"If-None-Match": {a.header.Get("ETag")}}})
		if again.status != http.StatusNotModified || again.body != "" {
			t.Errorf("%s, again: %d", path, again.status)
		}
		if a := r.do(t, request{method: "POST", path: path, anonymous: true}); a.status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, a.status)
		}
		size += len(a.body)
	}
	if size > 90_000 {
		t.Errorf("the page has %d bytes: it is to stay small", size)
	}
}
