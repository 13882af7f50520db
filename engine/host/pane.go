package host

import (
	"context"
	"strconv"
	"time"

	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

// maxPanes bounds how often one run is given a new pane: where panes keep dying,
// something ends them on purpose.
const maxPanes = 5

// paneKeeper gives a live run a new pane where its tmux server died.
type paneKeeper struct {
	h       *Host
	id, dir string
	next    time.Time
	given   int
}

// keep looks whether the pane is there, and opens one that shows the run where it is
// not. It only ever logs: the run does not depend on its pane.
func (k *paneKeeper) keep(ctx context.Context, info rundir.Info) {
	if !info.Pane || k.given >= maxPanes || time.Now().Before(k.next) {
		return
	}
	k.next = time.Now().Add(k.h.bounds.panes)
	if !k.missing(ctx) || !proc.Alive(info.Pid, info.StartTime) {
		return // a runner that has ended takes its pane along
	}
	k.given++
	k.next = time.Now().Add(k.h.bounds.panes << k.given)
	if err := k.open(ctx); err != nil {
		k.h.log.WarnContext(ctx, "a run could not be given a new pane", "execution", k.id, "error", err)
		return
	}
	k.h.log.InfoContext(ctx, "gave a run a new pane, its own is gone", "execution", k.id)
}

// missing reports whether there surely is no pane. The list may be older than the
// pane, so what is not in it is asked for by name.
func (k *paneKeeper) missing(ctx context.Context) bool {
	names, err := k.h.panes(ctx)
	if err != nil || names == nil || names[session(k.id)] {
		return false
	}
	there, err := k.h.tmux().HasSession(ctx, session(k.id))
	return err == nil && !there
}

func (k *paneKeeper) open(ctx context.Context) error {
	spec, err := rundir.ReadSpec(k.dir)
	if err != nil {
		return err
	}
	server := k.h.tmux()
	if server == nil {
		return nil
	}
	argv := []string{k.h.o.Binary, "runner", "--view", "--dir", k.dir}
	return server.NewSession(ctx, session(k.id), strconv.FormatInt(spec.Number, 10), argv)
}
