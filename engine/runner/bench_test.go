package runner_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
)

const benchBytes = 256 << 20

// BenchmarkOutput measures a program's stdout → output.log with a runner between,
// against the same program with its output going to a file.
func BenchmarkOutput(b *testing.B) {
	for _, how := range []string{"flood", "flood-lines"} {
		size := benchBytes
		if how == "flood-lines" {
			size /= 16
		}
		b.Run(how+"/runner", func(b *testing.B) {
			for b.Loop() {
				g := newRig(b, how, strconv.Itoa(size))
				g.secrets.Mask = append(g.secrets.Mask, "another-secret", "one-more-secret", "0123456789abcdef")
				g.write()
				res := g.launch("runner", nil).end()
				if res.Status != rundir.Succeeded {
					b.Fatalf("%+v", res)
				}
			}
			b.SetBytes(int64(size))
		})
		b.Run(how+"/file", func(b *testing.B) { benchShell(b, `"$0" "$1" "$2" > "$3"`, how, size) })
		b.Run(how+"/cat", func(b *testing.B) { benchShell(b, `"$0" "$1" "$2" | cat > "$3"`, how, size) })
	}
}

func benchShell(b *testing.B, script, how string, size int) {
	b.Helper()
	for b.Loop() {
		c := exec.Command("sh", "-c", script, os.Args[0], how, strconv.Itoa(size), filepath.Join(b.TempDir(), "out"))
		c.Env = []string{roleEnv + "=program", "PATH=" + os.Getenv("PATH")}
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	b.SetBytes(int64(size))
}

// BenchmarkStart measures how long it takes from the start of a runner until its agent
// runs, against the start of the bare program.
func BenchmarkStart(b *testing.B) {
	b.Run("runner", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			g := newRig(b, "touch", "")
			mark := filepath.Join(b.TempDir(), "mark")
			g.spec.Argv[2] = mark
			g.write()
			b.StartTimer()
			g.launch("runner", nil)
			untilFile(mark)
			b.StopTimer()
			g.end()
			b.StartTimer()
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			mark := filepath.Join(b.TempDir(), "mark")
			c := exec.Command(os.Args[0], "touch", mark)
			c.Env = []string{roleEnv + "=program"}
			if err := c.Start(); err != nil {
				b.Fatal(err)
			}
			untilFile(mark)
			_ = c.Wait()
		}
	})
}

func untilFile(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}
