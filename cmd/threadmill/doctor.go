package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/cmd/threadmill/config"
)

// finding is what one check of `doctor` found.
type finding struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Warning bool   `json:"warning,omitempty"` // not as it should be, but runs work
	Detail  string `json:"detail,omitempty"`
	Hint    string `json:"hint,omitempty"` // what to do
}

func good(name, format string, args ...any) finding {
	return finding{Name: name, OK: true, Detail: fmt.Sprintf(format, args...)}
}

func bad(name, hint, format string, args ...any) finding {
	return finding{Name: name, Detail: fmt.Sprintf(format, args...), Hint: hint}
}

// warning is a finding that leaves the exit code at 0.
func warning(name, hint, format string, args ...any) finding {
	return finding{Name: name, OK: true, Warning: true, Detail: fmt.Sprintf(format, args...), Hint: hint}
}

// doctorTimeout bounds all checks together; a hanging tmux or binary must not hang it.
const doctorTimeout = 30 * time.Second

func (a *app) doctorCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "doctor",
		Short: "Check what the service needs and say what to do",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorTimeout)
			defer cancel()
			return a.report(a.examine(ctx))
		},
	})
}

// examine runs all checks that make sense: without a configuration nobody can say
// which directory or agents to look at.
func (a *app) examine(ctx context.Context) []finding {
	found := []finding{a.examineTmux(ctx)}
	cfg, err := a.loadConfig()
	if err != nil {
		return append(found, bad("configuration", "correct the configuration; `threadmill init` writes one that is right", "%v", err))
	}
	found = append(found, examined(cfg))
	found = append(found, examineData(cfg.DataDir)...)
	found = append(found, a.examineRunDir(cfg.DataDir))
	found = append(found, a.examineWork(ctx, cfg)...)
	return append(found, a.examineService(ctx))
}

// examined tells which configuration is in force.
func examined(cfg *config.Config) finding {
	if cfg.Path == "" {
		return good("configuration", "none: the demonstration set-up is in force")
	}
	return good("configuration", "%s", cfg.Path)
}

// report prints the findings; any that is not right fails the command.
func (a *app) report(found []finding) error {
	ok := true
	for _, f := range found {
		ok = ok && f.OK
	}
	if err := a.printFindings(found, ok); err != nil {
		return err
	}
	if !ok {
		return errFailed
	}
	return nil
}

func (a *app) printFindings(found []finding, ok bool) error {
	if a.json {
		return a.printJSON(map[string]any{"ok": ok, "findings": found})
	}
	for _, f := range found {
		mark := a.paint(a.out, green, "✓")
		switch {
		case !f.OK:
			mark = a.paint(a.out, red, "✗")
		case f.Warning:
			mark = a.paint(a.out, yellow, "!")
		}
		if _, err := fmt.Fprintf(a.out, "%s %s: %s\n", mark, f.Name, f.Detail); err != nil {
			return err
		}
		if f.Hint != "" {
			fmt.Fprintf(a.out, "  → %s\n", f.Hint)
		}
	}
	return nil
}
