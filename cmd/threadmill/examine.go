package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/cmd/threadmill/config"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/safety"
	"github.com/threadmill/threadmill/templates"
)

// minTmux is the oldest tmux whose options we use.
const minTmux = 3.0

// tmuxVersion finds the number in what `tmux -V` prints: "tmux 3.5a", "tmux next-3.6".
var tmuxVersion = regexp.MustCompile(`(\d+\.\d+)`)

func (a *app) examineTmux(ctx context.Context) finding {
	path, err := a.lookTmux()
	if err != nil {
		return bad("tmux", tmuxHint, "not installed: runs work, but have no terminal")
	}
	out, err := exec.CommandContext(ctx, path, "-V").Output()
	if err != nil {
		return bad("tmux", "reinstall tmux", "%s does not run: %v", path, err)
	}
	said := clean(string(out))
	m := tmuxVersion.FindString(said)
	if v, err := strconv.ParseFloat(m, 64); err == nil && v < minTmux {
		return bad("tmux", "install a newer tmux", "%s is %s; at least %.1f is needed", path, said, minTmux)
	}
	return good("tmux", "%s (%s)", said, path)
}

// minFree is how much room a data directory should have: some logs of the usual size.
const minFree = 1 << 30

func examineData(dir string) []finding {
	const name = "data directory"
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return []finding{good(name, "%s is not there yet; `threadmill serve` makes it", dir)}
	case err != nil:
		return []finding{bad(name, "make it accessible or set data_dir", "%v", err)}
	case !info.IsDir():
		return []finding{bad(name, "move it away or set data_dir", "%s is a file", dir)}
	}
	found := []finding{examineMode(name, dir, info), examineSpace(dir)}
	return append(found, examineLock(dir)...)
}

func examineMode(name, dir string, info os.FileInfo) finding {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return bad(name, "chmod 700 "+dir, "%s has mode %04o: others can read what agents do", dir, mode)
	}
	if err := unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return bad(name, "give it to the user that runs the service", "%s cannot be written: %v", dir, err)
	}
	return good(name, "%s", dir)
}

func examineSpace(dir string) finding {
	const name = "free space"
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return bad(name, "check the file system", "%s: %v", dir, err)
	}
	free := int64(fs.Bavail) * int64(fs.Bsize) //nolint:gosec,unconvert // the types differ between systems; no disk overflows 63 bits
	if free < minFree {
		return warning(name, "make room, or shorten engine.retention", "%s left for %s", size(free), dir)
	}
	return good(name, "%s", size(free))
}

// examineLock tells whether a service holds the directory. It takes the lock shared
// for a moment, and only where somebody has made the file before.
func examineLock(dir string) []finding {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return nil
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil {
		return []finding{good("lock", "free: no service uses the data directory")}
	}
	return []finding{good("lock", "held by a running service")}
}

// examineRunDir looks at the directory of the sockets as the host will use it.
func (a *app) examineRunDir(dataDir string) finding {
	const name = "run directory"
	dir := a.runDir(dataDir)
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return good(name, "%s is not there yet; `threadmill serve` makes it", dir)
	case err != nil:
		return bad(name, "make it accessible", "%v", err)
	case !info.IsDir():
		return bad(name, "remove it", "%s is no directory", dir)
	case unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK) != nil:
		return bad(name, "run the service as the user that owns it, or remove it", "%s belongs to somebody else", dir)
	}
	return good(name, "%s", dir)
}

// examineWork looks at what can be run: each agent, and the programs of the
// capabilities, since the agents that run commands have none of their own.
func (a *app) examineWork(ctx context.Context, cfg *config.Config) []finding {
	const name = "capabilities"
	set, err := templates.Load(cfg.Capabilities)
	if err != nil {
		return []finding{bad(name, "correct these files", "%v", err)}
	}
	catalog, err := cfg.Catalog(set)
	if err != nil {
		return []finding{bad(name, "correct the configuration", "%v", err)}
	}
	var found []finding
	for _, id := range slices.Sorted(maps.Keys(catalog.Agents)) {
		found = append(found, a.examineAgent(ctx, catalog.Agents[id]))
	}
	return append(found, a.examinePrograms(catalog)...)
}

func (a *app) examineAgent(ctx context.Context, ag engine.Agent) finding {
	name := "agent " + ag.ID
	kinds := adapters()
	adapter, ok := kinds[ag.Adapter]
	if !ok {
		return bad(name, "use "+strings.Join(slices.Sorted(maps.Keys(kinds)), " or "), "this binary has no adapter %q", ag.Adapter)
	}
	self, err := os.Executable()
	if err != nil {
		return bad(name, "", "find this binary: %v", err)
	}
	ag = ownProgram(ag, self)
	job := agent.Job{Dir: ag.WorkingDir, Env: safety.Env(a.variables(), ag.EnvAllowlist, nil), Options: ag.Options}
	if ag.Binary != "" {
		job.Argv = append([]string{ag.Binary}, ag.Args...)
	}
	v := adapter.Check(ctx, job)
	if !v.OK {
		return bad(name, v.Hint, "%s", v.Problem)
	}
	return good(name, "%s", strings.Join(strings.Fields(ag.Adapter+" "+v.Path+" "+v.Version), " "))
}

// examinePrograms looks for the programs of command capabilities. A missing one spoils
// its capability alone.
func (a *app) examinePrograms(catalog engine.Catalog) []finding {
	var missing []finding
	commands := 0
	for _, id := range slices.Sorted(maps.Keys(catalog.Capabilities)) {
		k := catalog.Capabilities[id]
		if k.Mode != engine.ModeTemplate || len(k.Command) == 0 {
			continue
		}
		commands++
		dir := cmp.Or(k.WorkingDir, catalog.Agents[k.AgentID].WorkingDir)
		if _, err := safety.LookPath(k.Command[0], a.getenv("PATH"), dir); err != nil {
			missing = append(missing, warning("capability "+id, "install "+k.Command[0]+", or do without this capability", "%v", err))
		}
	}
	all := good("capabilities", "%d, of which %d run a command", len(catalog.Capabilities), commands)
	return append([]finding{all}, missing...)
}

func (a *app) examineService(ctx context.Context) finding {
	const name = "service"
	c, address, err := a.connect()
	if err != nil {
		return bad(name, "", "%v", err)
	}
	defer c.Close()
	h, err := c.Health(ctx)
	switch {
	case errors.Is(err, client.ErrNoServer):
		return warning(name, "start it with `threadmill serve`", "none answers at %s", address)
	case err != nil:
		return bad(name, "", "%s: %v", address, err)
	case h.Ready:
		return a.examineToken(ctx, c, address)
	}
	var reasons []string
	for _, check := range h.Checks {
		if !check.OK {
			reasons = append(reasons, check.Name+": "+check.Detail)
		}
	}
	return bad(name, "see the service's log", "%s is not ready: %s", address, strings.Join(reasons, "; "))
}

// examineToken tells the service of this configuration from another one that has
// taken its address.
func (a *app) examineToken(ctx context.Context, c *client.Client, address string) finding {
	const name = "service"
	_, err := c.Version(ctx)
	switch {
	case engine.CodeOf(err) == engine.CodeUnauthorized:
		return bad(name, "stop that one, set listen to another address, or set THREADMILL_TOKEN to its token",
			"the one at %s has another data directory: it does not take the token of this one", address)
	case err != nil:
		return bad(name, "see the service's log", "%s: %v", address, err)
	}
	return good(name, "ready at %s", address)
}
