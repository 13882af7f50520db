package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/cmd/threadmill/config"
)

func (a *app) initCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented configuration",
		Long: `Write a commented configuration to FILE, by default the one that --config names or
else ./threadmill.yaml. A file that is there already is left alone.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := a.config
			if path == "" {
				path = "threadmill.yaml"
			}
			if len(args) > 0 {
				path = args[0]
			}
			return a.writeConfig(path, force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite a file that is there")
	return cmd
}

// writeConfig writes the example beside its place first, so that a crash leaves no
// half of it, and links it there, which fails where somebody else was faster.
func (a *app) writeConfig(path string, force bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the configuration's directory: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".threadmill.*.yaml") // mode 0600: secrets may be put into it
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	defer os.Remove(f.Name()) // a no-op once it was renamed
	_, err = f.WriteString(config.Example())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	place := os.Link
	if force {
		place = os.Rename
	}
	if err := place(f.Name(), path); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already: edit it, or overwrite it with --force", path)
	} else if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = fmt.Fprintf(a.out, "Wrote %s. Edit it, check it with `threadmill doctor`, start with `threadmill serve`.\n", path)
	return err
}
