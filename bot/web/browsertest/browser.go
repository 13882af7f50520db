// Package browsertest drives the web page in a real headless Chromium, for tests. It
// knows browsers and nothing about what the page shows.
package browsertest

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// patience is how long something may take on a slow and busy machine. No test asserts
// how long anything takes.
const patience = 2 * time.Minute

// watch remembers what goes wrong in a page before any script of it runs.
const watch = `window.problems = [];
addEventListener("error", (e) => problems.push("error: " + (e.message || e.target?.outerHTML)), true);
addEventListener("unhandledrejection", (e) => problems.push("rejection: " + (e.reason?.stack || e.reason)));
addEventListener("securitypolicyviolation", (e) => problems.push("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample));`

// Browser is one Chromium with one tab and a profile of its own.
type Browser struct {
	tb  testing.TB
	ctx context.Context //nolint:containedctx // chromedp keeps the browser in it
}

// Start starts a browser that ends with the test.
func Start(tb testing.TB, width, height int) *Browser {
	tb.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(tb)), chromedp.WindowSize(width, height), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("no-sandbox", true), chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(tb.Context()), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	tb.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			tb.Logf("the browser ended with %v", err)
		}
		cancel()
		end()
	})
	b := &Browser{tb, ctx}
	if err := chromedp.Do(ctx); err != nil { // without a deadline: the browser lives as long as this context
		tb.Fatalf("start Chromium: %v", err)
	}
	b.do("watch the page", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
		return err
	}))
	return b
}

// chromium finds the browser under the names that systems give it.
func chromium(tb testing.TB) string {
	tb.Helper()
	for _, name := range []string{
		"chromium", "chromium-browser", "google-chrome",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	tb.Fatal("there is no Chromium here: `make test` installs it")
	return ""
}

func (b *Browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.tb.Fatalf("%s: %v\nthe page shows:\n%s", what, err, b.shown())
	}
}

func (b *Browser) shown() string {
	text, err := eval[string](b, `location.href.replace(/token=.*/, "token=…") + "\n" + document.body.innerText`)
	if err != nil {
		return err.Error()
	}
	return text
}

func eval[T any](b *Browser, js string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](js))
}

// Open goes to an address.
func (b *Browser) Open(url string) {
	b.tb.Helper()
	b.do("open the page", chromedp.Navigate(url))
}

// Eval returns the value of an expression.
func Eval[T any](b *Browser, js string) T {
	b.tb.Helper()
	v, err := eval[T](b, js)
	if err != nil {
		b.tb.Fatalf("%s: %v", js, err)
	}
	return v
}

// Until waits for an expression to become true.
func (b *Browser) Until(js string) {
	b.tb.Helper()
	for end := time.Now().Add(patience); !Eval[bool](b, "!!("+js+")"); {
		if time.Now().After(end) {
			b.tb.Fatalf("never came about: %s\nproblems: %v\nthe page shows:\n%s", js, b.Problems(), b.shown())
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-b.tb.Context().Done():
			b.tb.Fatal(b.tb.Context().Err())
		}
	}
}

// Sees waits for a text inside the last element that a selector names.
func (b *Browser) Sees(selector, text string) {
	b.tb.Helper()
	b.Until(fmt.Sprintf(`[...document.querySelectorAll(%s)].at(-1)?.innerText.includes(%s)`, strconv.Quote(selector), strconv.Quote(text)))
}

// Click clicks on the last visible button or link within a selector that has a text. The
// page may draw it again meanwhile, so finding and clicking are one step.
func (b *Browser) Click(within, text string) {
	b.tb.Helper()
	b.Until(fmt.Sprintf(`(() => {
		const el = [...document.querySelectorAll(%s)].flatMap((p) => [...p.querySelectorAll("button, a, summary, label")])
			.filter((e) => e.innerText.trim() === %s && !e.disabled && e.checkVisibility()).at(-1);
		el?.scrollIntoView({block: "nearest"});
		el?.click();
		return el;
	})()`, strconv.Quote(within), strconv.Quote(text)))
}

// Type writes into the last element that a selector names, as a person does.
func (b *Browser) Type(selector, text string) {
	b.tb.Helper()
	b.Until(fmt.Sprintf(`(() => {
		const el = [...document.querySelectorAll(%s)].filter((e) => !e.disabled && e.checkVisibility()).at(-1);
		el?.focus();
		return el && document.activeElement === el;
	})()`, strconv.Quote(selector)))
	b.do("type into "+selector, chromedp.KeyEvent(text))
}

// Keys presses keys wherever the focus is.
func (b *Browser) Keys(keys string) {
	b.tb.Helper()
	b.do("press "+keys, chromedp.KeyEvent(keys))
}

// Size makes the window as large as a device.
func (b *Browser) Size(width, height int) {
	b.tb.Helper()
	b.do("resize the window", chromedp.EmulateViewport(int64(width), int64(height)))
}

// Dark makes the system's colours dark or light.
func (b *Browser) Dark(dark bool) {
	b.tb.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[dark]
	b.do("change the colours", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// Screenshot returns what the window shows, as a PNG.
func (b *Browser) Screenshot() []byte {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.tb.Fatalf("take a screenshot: %v", err)
	}
	return png
}

// Problems returns what went wrong in the page: errors, and what its policy stopped.
func (b *Browser) Problems() string {
	b.tb.Helper()
	list, err := eval[[]string](b, "window.problems ?? []")
	if err != nil {
		return err.Error()
	}
	return strings.Join(list, "\n")
}
