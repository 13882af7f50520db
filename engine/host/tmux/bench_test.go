package tmux_test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/host/tmux"
)

// What a start costs over the control client, against the bare command that a person
// would type, without sessions and beside a hundred.
func BenchmarkNewSession(b *testing.B) {
	for _, alive := range []int{0, 100} {
		s, ask := start(b, 20*time.Second)
		for i := range alive {
			open(b, s, fmt.Sprint("alive", i))
		}
		b.Run(fmt.Sprintf("control/%d", alive), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				open(b, s, "c")
				b.StopTimer()
				ask("kill-session", "-t", "=c")
				b.StartTimer()
			}
		})
		b.Run(fmt.Sprintf("bare/%d", alive), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				p := exec.CommandContext(b.Context(), s.Path(), "-S", s.Socket(), "new-session", "-d", "-s", "c", "/bin/cat", "-")
				if out, err := p.CombinedOutput(); err != nil {
					b.Fatal(err, string(out))
				}
				b.StopTimer()
				ask("kill-session", "-t", "=c")
				b.StartTimer()
			}
		})
	}
}

func open(tb testing.TB, s *tmux.Server, name string) {
	tb.Helper()
	if err := s.NewSession(tb.Context(), name, "1", []string{"/bin/cat", "-"}); err != nil {
		tb.Fatal(err)
	}
}
