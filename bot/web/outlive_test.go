package web_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/bot/web"
	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/rundir"
)

// door is an address behind which one server after another stands, or none.
type door struct{ server atomic.Pointer[web.Server] }

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s := d.server.Load(); s != nil {
		s.Handler().ServeHTTP(w, r)
		return
	}
	panic(http.ErrAbortHandler)
}

func (d *door) open(t *testing.T, r *rig) {
	t.Helper()
	s, err := web.New(web.Options{Engine: r.engine, Sessions: &broken{}, Token: token, Listen: []string{"127.0.0.1:0"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d.server.Store(s)
}

func (d *door) close() {
	if s := d.server.Swap(nil); s != nil {
		s.Stop()
	}
}

// A client that follows sees each line once, however often the service goes away.
func TestFollowingOutlivesTheService(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	d := &door{}
	d.open(t, r)
	srv := httptest.NewServer(d)
	c := client.New(srv.URL, token)
	t.Cleanup(func() {
		c.Close()
		d.close()
		srv.Close()
	})
	lines := numbered(200)
	var got strings.Builder
	var seen atomic.Int32
	ended := make(chan error, 1)
	go func() {
		ended <- c.Follow(t.Context(), x.ID, client.Handlers{Log: func(e api.LogEvent) error {
			for line := range strings.Lines(e.Content) {
				got.WriteString("[" + string(e.Stream) + "] " + line)
				seen.Add(1)
			}
			return nil
		}})
	}()
	for i := 0; i < len(lines); i += 20 {
		run.log(t, lines[i:i+10]...)
		eventually(t, func() (bool, string) { return int(seen.Load()) >= i+10, "the lines do not come" })
		if i/20%3 == 2 {
			d.close()
		}
		run.log(t, lines[i+10:i+20]...) // some of them while nobody is there
		if d.server.Load() == nil {
			d.open(t, r)
		}
	}
	run.end(t, 0)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole(lines), got.String()); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkStream is the way of one line from its bell to the client, with 200 streams
// open; both ends are counted.
func BenchmarkStream(b *testing.B) {
	r := newRig(b, nil)
	const streams = 200
	arrived := make(chan struct{}, streams)
	runs := make([]*run, streams)
	ctx := b.Context()
	for i := range runs {
		x, err := r.client.Create(ctx, api.CreateRequest{Capability: "chat", Text: "x"})
		if err != nil {
			b.Fatal(err)
		}
		runs[i] = r.host.run(b, x.ID)
		go func() {
			_ = r.client.Follow(ctx, x.ID, client.Handlers{Log: func(api.LogEvent) error { arrived <- struct{}{}; return nil }})
		}()
	}
	line := "[stdout] " + strings.Repeat("x", 90)
	for _, run := range runs { // all are connected
		run.log(b, line)
		<-arrived
	}
	i := 0
	for b.Loop() {
		runs[i%streams].log(b, line)
		<-arrived
		i++
	}
	b.StopTimer()
	for _, run := range runs {
		_ = run.result(rundir.Result{Status: rundir.Cancelled})
	}
	r.await(b, "1", engine.Status.Ended)
}
