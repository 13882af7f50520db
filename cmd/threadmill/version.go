package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/engine/rundir"
)

// version is set by the linker, which can only set a variable; a build without it tells
// the module's.
var version string

// build tells what this binary is.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Go       string `json:"go"`
	Contract int    `json:"contract"` // of the run directory: what runners and services must share
}

// thisBuild reads what the toolchain noted in the binary.
func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Contract: rundir.Version}
	info, ok := debug.ReadBuildInfo()
	if ok && b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "dev"
	}
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "version",
		Short: "Print what this binary is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if a.json {
				return a.printJSON(b)
			}
			_, err := fmt.Fprintf(a.out, "threadmill %s%s\n%s, run directory contract %d\n",
				b.Version, b.source(), b.Go, b.Contract)
			return err
		},
	})
}

func (b build) source() string {
	switch {
	case b.Commit == "":
		return ""
	case b.Modified:
		return " (" + b.Commit[:min(12, len(b.Commit))] + ", modified)"
	}
	return " (" + b.Commit[:min(12, len(b.Commit))] + ")"
}
