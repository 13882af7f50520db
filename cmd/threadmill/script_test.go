package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts of testdata against the real program and, where they
// say `serve`, a real service.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Setup:               setupScript,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": scriptServe,
			"fails": scriptExit(exitFailed),
			"usage": scriptExit(exitUsage),
			"until": scriptUntil,
			"mode":  scriptMode,
		},
	})
}

// setupScript keeps a script away from the user's files and from other services.
func setupScript(env *testscript.Env) error {
	tb, ok := env.T().(testing.TB)
	if !ok {
		return errors.New("a script needs a testing.TB")
	}
	env.Values["tb"] = tb
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("THREADMILL_HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("THREADMILL_LISTEN", freeAddress(tb))
	return nil
}

// scriptServe starts a service with no configuration for the rest of the script.
func scriptServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: serve")
	}
	s := newService(ts.Value("tb").(testing.TB), "", nil)
	s.start()
	for _, entry := range s.env {
		if name, value, _ := strings.Cut(entry, "="); name != "PATH" {
			ts.Setenv(name, value)
		}
	}
}

// scriptExit runs a command that has to end with a certain exit code.
func scriptExit(want int) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) == 0 {
			ts.Fatalf("usage: fails|usage COMMAND [ARG …]")
		}
		var exit *exec.ExitError
		err := ts.Exec(args[0], args[1:]...)
		if !errors.As(err, &exit) || exit.ExitCode() != want {
			ts.Fatalf("%s ended with %v, want exit code %d", strings.Join(args, " "), err, want)
		}
	}
}

// scriptUntil repeats a command until what it prints matches.
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND [ARG …]")
	}
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s (%v) never printed %s", strings.Join(args[1:], " "), err, args[0])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// scriptMode checks the permissions of a file.
func scriptMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL FILE")
	}
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := info.Mode().Perm(); uint64(got) != want {
		ts.Fatalf("%s has mode %s, want %s", args[1], fmt.Sprintf("%04o", got), args[0])
	}
}
