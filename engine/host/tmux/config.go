package tmux

import (
	"fmt"
	"os"
	"path/filepath"
)

// config is everything our server is told. It is read again at every connect, so a
// newer binary's settings reach a server that an older one started.
//
// Viewers attach to these sessions from a browser: no key may open a command
// prompt, a shell or a window, and nothing that runs inside may reach the viewer's
// clipboard or pass escape sequences through. The one key left, Ctrl-\, lets go of
// the terminal; without it somebody who attached from a shell could not leave.
const config = `set -sq exit-empty on
set -sq escape-time 0
set -sq set-clipboard off
set -sq default-terminal "%s"
set -gq status off
set -gq prefix None
set -gq prefix2 None
set -gq update-environment ""
set -gq history-limit 5000
set -gq default-size 120x36
set -gq destroy-unattached off
set -gq detach-on-destroy on
set -gq mouse off
set -gq set-titles off
set -gq visual-activity off
set -gq visual-bell off
set -gq bell-action none
set -gwq window-size latest
set -gwq remain-on-exit off
set -gwq allow-passthrough off
set -gwq allow-rename off
set -gwq automatic-rename off
set -gwq monitor-bell off
unbind-key -a -q -T prefix
unbind-key -a -q -T root
unbind-key -a -q -T copy-mode
unbind-key -a -q -T copy-mode-vi
bind-key -T root 'C-\' detach-client
`

// writeConfig writes the configuration by rename: a server that starts at this very
// moment reads the old one or the new one, never half of it.
func writeConfig(path string) error {
	next := path + ".new"
	if err := os.WriteFile(next, fmt.Appendf(nil, config, terminal()), 0o600); err != nil {
		return fmt.Errorf("write the tmux configuration: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write the tmux configuration: %w", err)
	}
	return nil
}

// terminal is the TERM of panes. Older systems have no description of tmux's own,
// and programs in the pane would refuse to draw with a name they cannot look up.
func terminal() string {
	for _, dir := range []string{"/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo", "/opt/homebrew/share/terminfo"} {
		for _, sub := range []string{"t", "74"} { // macOS files them by the letter's code
			if _, err := os.Stat(filepath.Join(dir, sub, "tmux-256color")); err == nil {
				return "tmux-256color"
			}
		}
	}
	return "screen-256color"
}
