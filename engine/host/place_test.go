package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
)

func TestRunDirIsOursAlone(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	elsewhere := filepath.Join(base, "elsewhere")
	link := filepath.Join(base, "link")
	file := filepath.Join(base, "file")
	open := filepath.Join(base, "open")
	for _, err := range []error{
		os.Mkdir(elsewhere, 0o700), os.Symlink(elsewhere, link), os.WriteFile(file, nil, 0o600), os.Mkdir(open, 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{link, file, foreign(t)} {
		if err := prepareRunDir(bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if err := prepareRunDir(open); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(open); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	if err := prepareRunDir(filepath.Join(base, strings.Repeat("x", 90))); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a path too long for sockets: %v", err)
	}
}

// foreign is a directory of somebody else.
func foreign(tb testing.TB) string {
	tb.Helper()
	if os.Geteuid() != 0 {
		return "/usr"
	}
	dir := tb.TempDir()
	if err := os.Chown(dir, 65534, -1); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func TestRunDirFor(t *testing.T) {
	t.Parallel()
	a, b := RunDirFor("/run/user/1000", "/data/a"), RunDirFor("/run/user/1000", "/data/b")
	if a == b || a != RunDirFor("/run/user/1000", "/data/a/") || filepath.Dir(a) != "/run/user/1000" || len(filepath.Base(a)) > 20 {
		t.Errorf("%s and %s", a, b)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"a relative binary":      {Binary: "threadmill", Data: dir, RunDir: dir},
		"a missing binary":       {Binary: filepath.Join(dir, "none"), Data: dir, RunDir: dir},
		"a directory as binary":  {Binary: dir, Data: dir, RunDir: dir},
		"no data directory":      {Binary: self, RunDir: dir},
		"a relative run dir":     {Binary: self, Data: dir, RunDir: "run"},
		"a run dir for nobody":   {Binary: self, Data: dir, RunDir: self},
		"a plain file as binary": {Binary: "/etc/passwd", Data: dir, RunDir: dir},
	} {
		o.Logger = slog.New(slog.DiscardHandler)
		if h, err := New(o); err == nil {
			t.Errorf("%s was taken", name)
			_ = h.Close()
		}
	}
}

func TestSecretsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.env")
	if err := os.WriteFile(path+".new", []byte("half of an earlier one"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := writeSecrets(path, rundir.Secrets{Env: []string{"A=b"}}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	if err := dropStaleSecrets(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("fresh secrets were removed: %v", err)
	}
	old := time.Now().Add(-2 * staleSecrets)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if err := dropStaleSecrets(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("stale secrets stay")
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, _ := r.launch("serve")
	r.started(id)
	if err := r.Remove(t.Context(), id); err == nil {
		t.Error("the files of a live run were removed")
	}
	if _, err := r.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(r.path(id)); err == nil {
		t.Error("the directory stays")
	}
	for _, bad := range []string{"", "..", "../../x", "0", id + "/.."} {
		if err := r.Remove(t.Context(), bad); err == nil {
			t.Errorf("id %q was taken", bad)
		}
	}
}

func TestRemoveFollowsNoLink(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := rundir.NewID()
	elsewhere := t.TempDir()
	keep := filepath.Join(elsewhere, id, "keep")
	if err := os.MkdirAll(filepath.Dir(keep), 0o700); err != nil {
		t.Fatal(err)
	}
	month := filepath.Dir(r.path(id))
	for _, err := range []error{os.WriteFile(keep, nil, 0o600), os.MkdirAll(filepath.Dir(month), 0o700), os.Symlink(elsewhere, month)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Remove(t.Context(), id); err == nil {
		t.Error("a link out of the data directory was followed")
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
}
