//go:build bench

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
)

// The benchmark measures whole processes from outside, each figure next to a peer in
// the same run, and prints a table. It asserts nothing about time: machines are
// noisy, and the table is for people. `make bench` runs it.

const rounds = 3

const benchConfig = `
engine:
  max_concurrent: 1000
  allowed_working_dirs: [$WORK]
agents:
  demo: {adapter: demo, working_dir: $WORK, max_concurrent: 1000, idle_timeout: 60m, env_allowlist: [BENCH_API_KEY, BENCH_TOKEN]}
  shell: {adapter: command, working_dir: $WORK, max_concurrent: 1000, env_allowlist: [BENCH_API_KEY, BENCH_TOKEN]}
`

// row is one line of the table.
type row struct{ what, bar, got string }

type table struct {
	*testing.T

	rows []row
}

func (b *table) add(what, bar, format string, args ...any) {
	got := fmt.Sprintf(format, args...)
	b.rows = append(b.rows, row{what, bar, got})
	b.Logf("%s: %s (bar: %s)", what, got, bar)
}

func (b *table) print() {
	var sb strings.Builder
	sb.WriteString("\n| what | bar | measured |\n| --- | --- | --- |\n")
	for _, r := range b.rows {
		fmt.Fprintf(&sb, "| %s | %s | %s |\n", r.what, r.bar, r.got)
	}
	b.Log(sb.String())
	if path := os.Getenv("BENCH_TABLE"); path != "" {
		must(b, os.WriteFile(path, []byte(sb.String()), 0o600))
	}
}

// newBench is a service for measuring.
func newBench(t *testing.T) *service {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	arg := func(key, command, props string) string {
		return capability(key, command, "max_output_bytes: 100000000000\nargs_schema: {type: object, additionalProperties: false, properties: {"+props+"}}\n")
	}
	s := newService(t, benchConfig, map[string]string{
		"stamp":   arg("stamp", `[sh, -c, "date +%s%N > $0", "{{file}}"]`, "file: {type: string}"),
		"produce": arg("produce", fmt.Sprintf(`[%q, produce, "{{size}}", "{{count}}", "{{file}}"]`, self), "file: {type: string}, size: {type: integer}, count: {type: integer}"),
		"sleeps":  capability("sleeps", `[sleep, "3600"]`, ""),
	})
	s.env = append(s.env, "BENCH_API_KEY=sk-0123456789abcdef0123456789abcdef", "BENCH_TOKEN=ghp_0123456789abcdefghijklmnopqrstuvwxyz")
	s.start()
	return s
}

func TestBench(t *testing.T) {
	b := &table{T: t}
	defer b.print()
	for _, part := range []struct {
		name    string
		measure func(*table)
	}{
		{"size", benchSize},
		{"dispatch", benchDispatch},
		{"output", benchOutput},
		{"messages", benchMessages},
		{"many", benchMany},
		{"restart", benchRestart},
	} {
		t.Run(part.name, func(t *testing.T) {
			sub := &table{T: t}
			part.measure(sub)
			b.rows = append(b.rows, sub.rows...)
		})
	}
}

func benchSize(b *table) {
	s := newBench(b.T)
	fi, err := os.Stat(s.bin)
	must(b, err)
	b.add("size of the binary", "≤ 40 MB", "%.1f MB", float64(fi.Size())/1e6)
	time.Sleep(5 * time.Second) // what the start needed is given back by then
	b.add("bot idle, resident", "≤ 30 MiB", "%.1f MiB", memoryOf(b, s.cmd.Process.Pid, "status", "VmRSS:"))

	x := s.submit(map[string]any{"capability": "demo", "text": "say hello"})
	x = s.until(x.ID, func(x engine.Execution) bool { return x.Activity == "idle" })
	runner := s.runner(x.ID)
	before := cpu(b, runner)
	time.Sleep(20 * time.Second)
	b.add("an idle execution's runner: private dirty, CPU", "≤ 8 MiB, ≤ 0.5 % of a core", "%.1f MiB, %.2f %%",
		memoryOf(b, runner, "smaps_rollup", "Private_Dirty:"), 100*(cpu(b, runner)-before).Seconds()/20)
}

// memoryOf reads a figure in MiB from a process's file of that name.
func memoryOf(tb testing.TB, pid int, file, field string) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	must(tb, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.Atoi(strings.Fields(value)[0])
			must(tb, err)
			return float64(kb) / 1024
		}
	}
	tb.Fatalf("/proc/%d/%s has no %s", pid, file, field)
	return 0
}

// cpu is the time that a process has spent computing.
func cpu(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(tb, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	must(tb, err)
	system, err := strconv.Atoi(fields[12])
	must(tb, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// benchDispatch compares the way from an accepted request to the agent's first
// instruction with a bare `tmux new-session` of the same command line.
func benchDispatch(b *table) {
	s := newBench(b.T)
	sock := filepath.Join(s.home, "bare.sock")
	tmux := func(args ...string) *exec.Cmd {
		cmd := exec.Command("tmux", append([]string{"-S", sock, "-f", "/dev/null"}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		return cmd
	}
	must(b, tmux("new-session", "-d", "sleep", "3600").Run())
	b.Cleanup(func() { _ = tmux("kill-server").Run() })
	measure := func(what string) {
		var bare, ours []float64
		for i := range 100 {
			file := filepath.Join(s.work(), fmt.Sprintf("stamp-%d", i))
			begun := time.Now()
			must(b, tmux("new-session", "-d", "sh", "-c", "date +%s%N > "+file).Run())
			bare = append(bare, s.stamped(file).Sub(begun).Seconds()*1e3)
			x := s.submit(map[string]any{"capability": "stamp", "args": map[string]any{"file": file}})
			ours = append(ours, s.stamped(file).Sub(x.CreatedAt).Seconds()*1e3)
			s.wait(x.ID)
		}
		b.add("accepted → agent started, "+what, "p50 ≤ 2.5 ×, p99 ≤ 4 × bare tmux", "p50 %.2f × (%.1f / %.1f ms), p99 %.2f × (%.1f / %.1f ms)",
			quantile(ours, .5)/quantile(bare, .5), quantile(ours, .5), quantile(bare, .5),
			quantile(ours, .99)/quantile(bare, .99), quantile(ours, .99), quantile(bare, .99))
	}
	measure("nothing else alive")
	for range 100 {
		must(b, tmux("new-session", "-d", "sleep", "3600").Run())
		s.submit(map[string]any{"capability": "sleeps"})
	}
	s.eventually("all are running", func() bool { return s.inStatus(engine.Running) == 100 })
	measure("100 sessions alive")
}

// stamped waits for a time stamp in a file and removes it.
func (s *service) stamped(file string) time.Time {
	s.Helper()
	var at int64
	s.eventually("a stamp in "+file, func() bool {
		b, err := os.ReadFile(file)
		if err != nil || len(b) == 0 || b[len(b)-1] != '\n' {
			return false
		}
		at, err = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		return err == nil
	})
	must(s, os.Remove(file))
	return time.Unix(0, at)
}

// inStatus is how many executions have a status.
func (s *service) inStatus(status engine.Status) int {
	s.Helper()
	var page []engine.Execution
	s.call("GET", "/api/executions?pageSize=200&status="+string(status), nil, &page)
	return len(page)
}

func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func median(values []float64) float64 { return quantile(values, .5) }

// produce lets the producer write through the service and returns MB/s. With stopped
// the tmux server is stopped while it writes.
func (s *service) produce(size, count int, stopped bool) float64 {
	s.Helper()
	file := filepath.Join(s.work(), "produced")
	must(s, os.WriteFile(file+".wait", nil, 0o600))
	x := s.submit(map[string]any{"capability": "produce", "args": map[string]any{"size": size, "count": count, "file": file}})
	s.running(x.ID)
	if stopped {
		s.stopTmux()
		defer s.continueTmux()
	}
	must(s, os.Remove(file+".wait"))
	x = s.wait(x.ID)
	if x.Status != engine.Succeeded || x.LogLineCount < int64(size/100*count) {
		s.Fatalf("the producer ended as %s with %d lines: %s", x.Status, x.LogLineCount, x.Error)
	}
	must(s, os.RemoveAll(s.dir(x.ID)))
	return s.speed(file, size*count)
}

// producePlain lets it write through a shell command line, in which $P is the
// producer with its arguments, and returns MB/s.
func (s *service) producePlain(size, count int, script string) float64 {
	s.Helper()
	file := filepath.Join(s.work(), "produced")
	out := filepath.Join(s.work(), "out")
	self, err := os.Executable()
	must(s, err)
	p := fmt.Sprintf("%s produce %d %d %s", self, size, count, file)
	script = strings.NewReplacer("$P", p, "$OUT", out).Replace(script)
	if msg, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		s.Fatalf("%s: %v\n%s", script, err, msg)
	}
	s.eventually("the producer has ended", func() bool { _, err := os.Stat(file); return err == nil })
	_ = os.Remove(out) // pipe-pane's writer may still hold it
	return s.speed(file, size*count)
}

func (s *service) speed(file string, bytes int) float64 {
	s.Helper()
	b, err := os.ReadFile(file)
	must(s, err)
	must(s, os.Remove(file))
	var p produced
	must(s, json.Unmarshal(b, &p))
	return float64(bytes) / 1e6 / p.Seconds
}

// benchOutput compares the way of output into the log with plain redirections.
func benchOutput(b *table) {
	s := newBench(b.T)
	const line, block = 100, 65536
	lines, blocks := 1_500_000, 12_000
	var lineRatio, catRatio, pipeRatio, stoppedRatio, lineSpeed, blockSpeed []float64
	sock := filepath.Join(s.home, "pipe.sock")
	b.Cleanup(func() { _ = exec.Command("tmux", "-S", sock, "kill-server").Run() })
	for range rounds {
		ours, plain := s.produce(line, lines, false), s.producePlain(line, lines, "$P > $OUT")
		lineRatio, lineSpeed = append(lineRatio, ours/plain), append(lineSpeed, ours)
		ours, plain = s.produce(block, blocks, false), s.producePlain(block, blocks, "$P | cat > $OUT")
		catRatio, blockSpeed = append(catRatio, ours/plain), append(blockSpeed, ours)
		piped := s.producePlain(block, blocks/12, fmt.Sprintf("tmux -S %s -f /dev/null new-session -d -s p 'sleep 1; $P' \\; pipe-pane -o 'cat > $OUT'; while tmux -S %s has-session -t p 2>/dev/null; do sleep .1; done", sock, sock))
		pipeRatio = append(pipeRatio, ours/piped)
		stoppedRatio = append(stoppedRatio, s.produce(block, blocks, true)/ours)
	}
	b.add("stdout → log, line-buffered, against > file", "≥ 1.0 ×", "%.2f × (%.0f MB/s)", median(lineRatio), median(lineSpeed))
	b.add("stdout → log, block-buffered, against | cat > file", "≥ 0.25 ×", "%.2f × (%.0f MB/s)", median(catRatio), median(blockSpeed))
	b.add("the same against pipe-pane", "≥ 4 ×", "%.1f ×", median(pipeRatio))
	b.add("the same with the tmux server stopped", "≥ 0.9 ×, 0 lines lost", "%.2f ×, 0 lines lost", median(stoppedRatio))
}
