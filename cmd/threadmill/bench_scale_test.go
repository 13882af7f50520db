//go:build bench

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// stopTmux stops the service's tmux server, which must cost a run nothing: its pane
// is only a view.
func (s *service) stopTmux() {
	s.Helper()
	out, err := exec.Command("tmux", "-S", s.tmuxSocket(), "display-message", "-p", "#{pid}").Output()
	must(s, err)
	s.tmuxPid, err = strconv.Atoi(strings.TrimSpace(string(out)))
	must(s, err)
	must(s, syscall.Kill(s.tmuxPid, syscall.SIGSTOP))
}

func (s *service) continueTmux() {
	s.Helper()
	must(s, syscall.Kill(s.tmuxPid, syscall.SIGCONT))
}

// follow reads an execution's entries as they come, until ctx ends.
func (s *service) follow(ctx context.Context, id string, on func(agent.Entry)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/api/executions/"+id+"/entries/stream", nil)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(s.data(), "api-token"))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var en agent.Entry
			if json.Unmarshal([]byte(data), &en) == nil && en.Seq > 0 {
				on(en)
			}
		}
	}
}

// benchMessages measures from a message to the agent's text on the stream.
func benchMessages(b *table) {
	s := newBench(b.T)
	x := s.submit(map[string]any{"capability": "demo", "text": "say hello"})
	s.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Idle })
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan string, 1000)
	var reading sync.WaitGroup
	reading.Go(func() {
		_ = s.follow(ctx, x.ID, func(en agent.Entry) { // it ends with ctx
			if en.Kind == agent.KindAssistant {
				answers <- en.Content
			}
		})
	})
	var took []float64
	for i := range 200 {
		text := fmt.Sprintf("ping %d!", i)
		begun := time.Now()
		s.call("POST", "/api/executions/"+x.ID+"/message", map[string]any{"text": "say " + text}, nil)
		for answer := range answers {
			if strings.Contains(answer, text) {
				break
			}
		}
		took = append(took, time.Since(begun).Seconds()*1e3)
	}
	cancel()
	reading.Wait()
	b.add("message → agent's text on the stream, the next at once", "p99 ≤ 50 ms", "p50 %.1f ms, p99 %.1f ms", quantile(took, .5), quantile(took, .99))
}

// benchMany measures 200 executions that write 20 lines a second each, all of them
// watched.
func benchMany(b *table) {
	const executions, every, seconds = 200, 50 * time.Millisecond, 20
	s := newBench(b.T)
	ctx, cancel := context.WithCancel(context.Background())
	var (
		mu   sync.Mutex
		late []float64
		wg   sync.WaitGroup
		on   bool
	)
	for range executions {
		x := s.submit(map[string]any{"capability": "demo", "text": fmt.Sprintf("sleep 20s; lines %d %s", (seconds+40)*20, every)})
		wg.Go(func() {
			_ = s.follow(ctx, x.ID, func(en agent.Entry) { // it ends with ctx
				lag := time.Since(en.Time).Seconds() * 1e3
				mu.Lock()
				defer mu.Unlock()
				if on && en.Kind == agent.KindAssistant {
					late = append(late, lag)
				}
			})
		})
	}
	s.eventually("all are running", func() bool { return s.inStatus(engine.Running) == executions })
	time.Sleep(30 * time.Second) // they all write by now
	watch := func(yes bool) { mu.Lock(); on = yes; mu.Unlock() }
	before := cpu(b, s.cmd.Process.Pid)
	watch(true)
	time.Sleep(seconds * time.Second)
	watch(false)
	used := cpu(b, s.cmd.Process.Pid) - before
	rss := memoryOf(b, s.cmd.Process.Pid, "status", "VmRSS:")
	cancel()
	wg.Wait()
	b.add("200 executions × 20 lines/s: entry → SSE, bot", "p99 ≤ 100 ms, ≤ 0.6 core", "p50 %.1f ms, p99 %.1f ms over %d entries, %.2f core, %.0f MiB resident",
		quantile(late, .5), quantile(late, .99), len(late), used.Seconds()/seconds, rss)
}

// benchRestart measures how long a killed service needs to be back at 100 runs.
func benchRestart(b *table) {
	const executions = 100
	s := newBench(b.T)
	for range executions {
		s.submit(map[string]any{"capability": "demo", "text": "lines 100000 100ms"})
	}
	s.eventually("all are running", func() bool { return s.inStatus(engine.Running) == executions })
	var took []float64
	for range rounds {
		s.kill()
		time.Sleep(3 * time.Second) // they write on meanwhile
		begun := time.Now()
		s.start()
		s.eventually("all are attached", func() bool {
			var page []engine.Execution
			s.call("GET", "/api/executions?pageSize=200&status=running", nil, &page)
			for _, x := range page {
				if x.HeartbeatAt == nil || x.HeartbeatAt.Before(begun) {
					return false
				}
			}
			return len(page) == executions
		})
		took = append(took, time.Since(begun).Seconds())
	}
	b.add("killed with 100 live executions: all re-attached and caught up", "≤ 3 s", "%.2f s", median(took))
}
