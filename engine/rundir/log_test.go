package rundir_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

var _ engine.Log = (*rundir.LogReader)(nil)

func TestLogRotatesBetweenLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openLog(t, dir, 10, 0)
	write(t, w, "123456789\n") // reaches the size at once
	write(t, w, "abc\ndef\nghi\njkl\n")
	write(t, w, "a line of more than ten bytes\n")
	write(t, w, "x\n")
	want := map[string]string{
		"output.log.1": "123456789\n", "output.log.2": "abc\ndef\nghi\n",
		"output.log.3": "jkl\na line of more than ten bytes\n", "output.log": "x\n",
	}
	if diff := cmp.Diff(want, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if w.Bytes() != 58 || w.Lines() != 7 {
		t.Errorf("%d bytes, %d lines", w.Bytes(), w.Lines())
	}
	if mode := fileMode(t, dir, rundir.LogFile); mode != 0o600 {
		t.Errorf("mode = %o", mode)
	}
}

func TestLogGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before map[string]string
		want   string
	}{
		"nothing there":           {nil, "new\n"},
		"one segment":             {map[string]string{"output.log": "old\n"}, "old\nnew\n"},
		"a torn line":             {map[string]string{"output.log": "old\nto"}, "old\nto\nnew\n"},
		"several":                 {map[string]string{"output.log.1": "1\n", "output.log.2": "2\n", "output.log": "3\n"}, "1\n2\n3\nnew\n"},
		"killed within rotation":  {map[string]string{"output.log.1": "1\n", "output.log.2": "2\n"}, "1\n2\nnew\n"},
		"killed after rotation":   {map[string]string{"output.log.1": "1\n", "output.log": ""}, "1\nnew\n"},
		"ten segments, by number": {segments(12), wholeOf(12) + "new\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range tt.before {
				writeFile(t, dir, file, []byte(content))
			}
			w := openLog(t, dir, 0, 0)
			write(t, w, "new\n")
			if diff := cmp.Diff(tt.want, wholeLog(t, dir)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
			if w.Bytes() != int64(len(tt.want)) || w.Lines() != int64(strings.Count(tt.want, "\n")) {
				t.Errorf("%d bytes, %d lines", w.Bytes(), w.Lines())
			}
		})
	}
}

func TestLogLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openLog(t, dir, 8, 20)
	write(t, w, "12345\n")
	if err := w.Write([]byte("6789\nabcd\nefgh\n")); !errors.Is(err, rundir.ErrLogLimit) {
		t.Errorf("over the limit: %v", err)
	}
	if err := w.Write([]byte("x\n")); !errors.Is(err, rundir.ErrLogLimit) {
		t.Errorf("a line that would fit must not follow a gap: %v", err)
	}
	if got := wholeLog(t, dir); got != "12345\n6789\nabcd\n" {
		t.Errorf("log = %q", got)
	}
	if again := openLog(t, dir, 8, 16); again.Write([]byte("x\n")) == nil {
		t.Error("the limit does not count what was there")
	}
}

func TestLogTakesWholeLinesOnly(t *testing.T) {
	t.Parallel()
	w := openLog(t, t.TempDir(), 0, 0)
	if err := w.Write([]byte("a\nb")); err == nil {
		t.Error("no error for half a line")
	}
	if err := w.Write(nil); err != nil {
		t.Errorf("nothing at all: %v", err)
	}
}

func TestLogReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := openReader(t, dir)
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("before there is a log: %d, %v", n, err)
	}
	w := openLog(t, dir, 6, 0)
	for i := range 5 {
		write(t, w, fmt.Sprintf("line%d\n", i))
	}
	const whole = "line0\nline1\nline2\nline3\nline4\n"
	for off := range len(whole) + 2 {
		for size := range 12 {
			checkReadAt(t, r, whole, off, size)
		}
	}
	if size, err := r.Size(); err != nil || size != int64(len(whole)) {
		t.Errorf("Size = %d, %v", size, err)
	}
	if pos, err := r.Seek(-8, io.SeekEnd); err != nil || pos != 22 {
		t.Errorf("Seek = %d, %v", pos, err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "3\nline4\n" {
		t.Errorf("the rest = %q, %v", b, err)
	}
	write(t, w, "more\n")
	if b, err := io.ReadAll(r); err != nil || string(b) != "more\n" {
		t.Errorf("more = %q, %v", b, err)
	}
	for _, seek := range []struct {
		offset int64
		whence int
	}{{-1, io.SeekStart}, {-100, io.SeekCurrent}, {-100, io.SeekEnd}, {0, 9}} {
		if _, err := r.Seek(seek.offset, seek.whence); err == nil {
			t.Errorf("Seek(%+v) succeeded", seek)
		}
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("ReadAt(-1) succeeded")
	}
}

func TestLogReaderIsClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, openLog(t, dir, 0, 0), "line\n")
	r := openReader(t, dir)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read = %v", err)
	}
	if _, err := rundir.OpenLogReader(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("OpenLogReader = %v", err)
	}
}

// Three readers follow a writer that rotates all the time.
func TestFollowersOfARotatingLogMissNothing(t *testing.T) {
	t.Parallel()
	const lines = 300_000
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { follow(ctx, t, dir, lines) })
	}
	wg.Go(func() { writeNumbered(t, dir, lines) })
	wg.Wait()
	if size, err := rundir.LogSize(dir); err != nil || size != int64(len(wholeLog(t, dir))) {
		t.Errorf("LogSize = %d, %v", size, err)
	}
}

func writeNumbered(t *testing.T, dir string, lines int) {
	t.Helper()
	w, err := rundir.OpenLog(dir, 64<<10, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer w.Close()
	out := w.Stream(agent.Stdout, nil)
	chunk := bufio.NewWriterSize(out, 777) // cuts lines anywhere
	for i := range lines {
		if _, err := fmt.Fprintf(chunk, "%d\n", i); err != nil {
			t.Error(err)
			return
		}
	}
	if err := errors.Join(chunk.Flush(), out.Flush()); err != nil {
		t.Error(err)
	}
}

func follow(ctx context.Context, t *testing.T, dir string, lines int) {
	t.Helper()
	r, err := rundir.OpenLogReader(dir)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	in := bufio.NewReader(patient{ctx, r})
	for i := range lines {
		line, err := in.ReadString('\n')
		if want := fmt.Sprintf("[stdout] %d\n", i); line != want || err != nil {
			t.Errorf("line %d is %q, %v", i, line, err)
			return
		}
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the last line: %d, %v", n, err)
	}
}

// patient waits at the end of a log for more.
type patient struct {
	ctx context.Context //nolint:containedctx // a test's reader lives as long as the test
	r   io.Reader
}

func (p patient) Read(b []byte) (int, error) {
	for {
		n, err := p.r.Read(b)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		select {
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// A writer is killed again and again; each one goes on where its predecessor ended.
func TestKilledWriterLeavesWholeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 8 {
		killAWriter(t, dir)
	}
	r := openLog(t, dir, 0, 0) // completes a torn last line
	lines := strings.Split(strings.TrimSuffix(wholeLog(t, dir), "\n"), "\n")
	if int64(len(lines)) != r.Lines() {
		t.Errorf("%d lines, counted %d", len(lines), r.Lines())
	}
	for i, line := range lines {
		if want := fmt.Sprintf("[stdout] line %d", i+1); line != want {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
	entries, _, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0)
	if err != nil || len(entries) < len(lines)-8 || len(entries) > len(lines) {
		t.Errorf("%d entries for %d lines, %v", len(entries), len(lines), err)
	}
}

// killAWriter starts a writer, waits until it has rotated, and kills it.
func killAWriter(t *testing.T, dir string) {
	t.Helper()
	before, _ := filepath.Glob(filepath.Join(dir, "output.log.*"))
	cmd := child(t, "write", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		now, _ := filepath.Glob(filepath.Join(dir, "output.log.*"))
		return len(now) > len(before)+3
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the writer ended by itself: %v", cmd.ProcessState)
	}
}

// A disk that becomes full in the middle of a line leaves no half line behind, and what
// follows once there is room again stands on a line of its own.
func TestFullDiskLeavesWholeLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := child(t, "full", dir).Run(); err != nil {
		t.Fatal(err)
	}
	log := wholeLog(t, dir)
	for i, line := range strings.Split(strings.TrimSuffix(log, "\n"), "\n") {
		if want := fmt.Sprintf("[stdout] line %d", i); line != want {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	entries, _, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0)
	if err != nil || len(entries) < 2 || entries[len(entries)-1].Content != "room again" {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// child is the test binary as another program, see TestMain.
func child(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], dir)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wantTail(t, dir, 5, nil)
	w := openLog(t, dir, 100, 0)
	var all []string
	for i := range 200 {
		all = append(all, strings.Repeat("x", i))
		write(t, w, all[i]+"\n")
		for _, n := range []int{1, 2, 7, i, i + 1, i + 2} {
			wantTail(t, dir, n, all[max(0, len(all)-n):])
		}
	}
	wantTail(t, dir, 0, nil)
	wantTail(t, dir, -1, nil)
	writeFile(t, dir, rundir.LogFile, []byte("whole\ntorn"))
	wantTail(t, dir, 2, []string{"whole", "torn"})
}

func TestTailOfManyLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openLog(t, dir, 0, 0)
	write(t, w, strings.Repeat("0123456789\n", 1_800_000)) // more than the tail may read
	lines, err := rundir.Tail(dir, 1_800_000)
	if err != nil || len(lines) < 1_400_000 || len(lines) > 1_600_000 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, i := range []int{0, len(lines) / 2, len(lines) - 1} {
		if lines[i] != "0123456789" {
			t.Errorf("line %d is %q", i, lines[i])
		}
	}
}

func wantTail(t *testing.T, dir string, n int, want []string) {
	t.Helper()
	got, err := rundir.Tail(dir, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 {
		want = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("Tail(%d) (-want +got):\n%s", n, diff)
	}
}

func openLog(t *testing.T, dir string, rotate, limit int64) *rundir.LogWriter {
	t.Helper()
	w, err := rundir.OpenLog(dir, rotate, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func openReader(t *testing.T, dir string) *rundir.LogReader {
	t.Helper()
	r, err := rundir.OpenLogReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func write(t *testing.T, w *rundir.LogWriter, lines string) {
	t.Helper()
	if err := w.Write([]byte(lines)); err != nil {
		t.Fatal(err)
	}
}

func wholeLog(t *testing.T, dir string) string {
	t.Helper()
	b, err := io.ReadAll(openReader(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func checkReadAt(t *testing.T, r io.ReaderAt, whole string, off, size int) {
	t.Helper()
	want, got := make([]byte, size), make([]byte, size)
	n, wantErr := strings.NewReader(whole).ReadAt(want, int64(off))
	m, err := r.ReadAt(got, int64(off))
	if size == 0 {
		wantErr = nil
	}
	if m != n || !bytes.Equal(got, want) || !errors.Is(err, wantErr) {
		t.Fatalf("ReadAt(%d bytes, %d) = %q, %v; want %q, %v", size, off, got[:m], err, want[:n], wantErr)
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		all[e.Name()] = string(readFile(t, dir, e.Name()))
	}
	return all
}

func segments(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("output.log.%d", i+1)] = fmt.Sprintf("segment %d\n", i+1)
	}
	return all
}

func wholeOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "segment %d\n", i+1)
	}
	return b.String()
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not happen in time")
		case <-time.After(2 * time.Millisecond):
		}
	}
}
