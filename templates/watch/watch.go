// Package watch tells when files that people edit have changed. It survives editors
// that save by rename and folders that come and go, and where the system has no
// notifications it still looks every few seconds.
//
// It knows nothing of what is in the files.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	debounce = 100 * time.Millisecond // an editor's save is several events
	poll     = 2 * time.Second
)

// Watcher calls Reload whenever one of the paths has changed.
type Watcher struct {
	// Paths returns what to watch, files and folders; it is asked again after each
	// reload, since a configuration may name other folders then.
	Paths func() []string
	// Reload takes the new content, or refuses it and leaves the old in force.
	Reload func(context.Context) error
	// Trigger asks for a reload without a change; may be nil.
	Trigger <-chan struct{}
	Log     *slog.Logger
}

// Run watches until ctx ends. It reloads once at the start, since something may have
// changed after it was read first. What Reload refuses is logged and tried again at
// the next change.
func (w *Watcher) Run(ctx context.Context) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.Log.WarnContext(ctx, "watching for changes by looking only", "error", err)
		w.loop(ctx, nil, nil)
		return
	}
	defer notify.Close()
	w.loop(ctx, notify, notify.Events)
}

// loop reloads at the end of each burst of changes. The timer stands at the poll
// interval while all is quiet and at the debounce interval once something happened;
// further events do not push it back, so a file that never rests is still read.
func (w *Watcher) loop(ctx context.Context, notify *fsnotify.Watcher, events <-chan fsnotify.Event) {
	w.subscribe(notify)
	known, dirty := look(w.Paths()), true
	timer := time.NewTimer(debounce)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Trigger:
			dirty = true
			timer.Reset(0)
			continue
		case e := <-events:
			if !dirty && w.concerns(e) {
				dirty = true
				timer.Reset(debounce)
			}
			continue
		case <-timer.C:
		}
		next := poll
		if now := look(w.Paths()); dirty || !maps.EqualFunc(known, now, same) {
			known, dirty = now, w.reload(ctx, notify) // looked at before it is read: a change meanwhile is seen
		}
		if dirty {
			next = debounce
		}
		timer.Reset(next)
	}
}

// reload reports whether the reload named other paths than before; then it is to be
// repeated, since nobody watched those while they were read.
func (w *Watcher) reload(ctx context.Context, notify *fsnotify.Watcher) (again bool) {
	before := w.Paths()
	if err := w.Reload(ctx); err != nil {
		w.Log.ErrorContext(ctx, "reload refused, the old one stays in force", "error", err)
	}
	w.subscribe(notify)
	return !slices.Equal(before, w.Paths())
}

// subscribe asks for notifications about all paths. A folder that was replaced by
// another one of the same name is subscribed to anew.
func (w *Watcher) subscribe(notify *fsnotify.Watcher) {
	if notify == nil {
		return
	}
	wanted := folders(w.Paths())
	for _, dir := range notify.WatchList() {
		if !slices.Contains(wanted, dir) {
			w.gone(notify.Remove(dir))
		}
	}
	for _, dir := range wanted {
		w.gone(notify.Add(dir))
	}
}

// gone notes that a folder cannot be watched; looking at it goes on.
func (w *Watcher) gone(err error) {
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
		w.Log.Warn("a folder is watched by looking only", "error", err)
	}
}

// folders returns what notifications are asked for: a file's folder rather than the
// file, since a save by rename puts another file there.
func folders(paths []string) []string {
	var out []string
	for _, p := range paths {
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			p = filepath.Dir(p)
		}
		out = append(out, filepath.Clean(p))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// concerns reports whether a notification is about one of the paths.
func (w *Watcher) concerns(e fsnotify.Event) bool {
	if e.Op == fsnotify.Chmod {
		return false // backup programs and file managers do that all day
	}
	name := filepath.Clean(e.Name)
	return slices.ContainsFunc(w.Paths(), func(p string) bool {
		p = filepath.Clean(p)
		if p == name {
			return true
		}
		info, err := os.Stat(p)
		return err == nil && info.IsDir() && filepath.Dir(name) == p
	})
}

// look describes all paths, and the files in those that are folders.
func look(paths []string) map[string]os.FileInfo {
	out := map[string]os.FileInfo{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			continue
		}
		out[p] = info
		if !info.IsDir() {
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name := filepath.Join(p, e.Name())
			if info, err := os.Stat(name); err == nil { // through links: mounted configurations swap them
				out[name] = info
			}
		}
	}
	return out
}

// same compares what can be told without reading. The size and the time alone do not
// do: two files written in one tick of the clock share them.
func same(a, b os.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}
