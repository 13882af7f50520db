package claude_test

import (
	"os"
	"testing"

	"github.com/threadmill/threadmill/adapters/adaptertest"
)

func TestMain(m *testing.M) {
	os.Exit(adaptertest.Main(m, map[string]func([]string) int{fakeProgram: playClaude}))
}
