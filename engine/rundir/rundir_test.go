package rundir_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/threadmill/threadmill/engine/rundir"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "executions", "id")
	spec := rundir.Spec{ExecutionID: "id", Argv: []string{"true"}, Timeout: rundir.Duration(90 * time.Second)}
	for range 2 { // it may be repeated
		if err := rundir.Create(dir, spec); err != nil {
			t.Fatal(err)
		}
	}
	got, err := rundir.ReadSpec(dir)
	if err != nil {
		t.Fatal(err)
	}
	spec.Version = rundir.Version
	if diff := cmp.Diff(spec, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	for name, want := range map[string]os.FileMode{
		".": os.ModeDir | 0o700, "attachments": os.ModeDir | 0o700, "output": os.ModeDir | 0o700, "spec.json": 0o600,
	} {
		if mode := fileMode(t, dir, name); mode != want {
			t.Errorf("mode of %s = %v, want %v", name, mode, want)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 3 {
		t.Errorf("%v, %v: something was left behind", all, err)
	}
}

func TestReadSpecRefusesAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, rundir.SpecFile, []byte(`{"version":99}`))
	if _, err := rundir.ReadSpec(dir); err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("ReadSpec = %v", err)
	}
}

// TestReadWhatIsDamaged: files that a power failure has emptied must not keep a run from
// ever being settled.
func TestReadWhatIsDamaged(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{", "\x00\x00\x00", `{"version":"one"}`, "[]"} {
		dir := t.TempDir()
		writeFile(t, dir, rundir.InfoFile, []byte(content))
		writeFile(t, dir, rundir.ResultFile, []byte(content))
		writeFile(t, dir, rundir.SpecFile, []byte(content))
		if info, ok, err := rundir.ReadInfo(dir); !ok || err != nil || info != (rundir.Info{}) {
			t.Errorf("ReadInfo of %q = %+v, %t, %v", content, info, ok, err)
		}
		if res, ok, err := rundir.ReadResult(dir); !ok || err != nil || res.Status != rundir.Failed || res.Message == "" {
			t.Errorf("ReadResult of %q = %+v, %t, %v", content, res, ok, err)
		}
		if _, err := rundir.ReadSpec(dir); !errors.Is(err, rundir.ErrDamaged) {
			t.Errorf("ReadSpec of %q = %v", content, err)
		}
	}
}

func TestReadWhatIsNotThereYet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, ok, err := rundir.ReadInfo(dir); ok || err != nil {
		t.Errorf("ReadInfo = %v, %v", ok, err)
	}
	if _, ok, err := rundir.ReadResult(dir); ok || err != nil {
		t.Errorf("ReadResult = %v, %v", ok, err)
	}
}

func TestDir(t *testing.T) {
	t.Parallel()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057" // of June 2023
	if dir, err := rundir.Dir("/data", id); err != nil || dir != "/data/executions/2023/06/"+id {
		t.Errorf("Dir = %q, %v", dir, err)
	}
	if _, err := rundir.Dir("/data", rundir.NewID()); err != nil {
		t.Errorf("Dir of a new id: %v", err)
	}
	for _, id := range []string{"", "../../etc", strings.ToUpper(id), "{" + id + "}", uuid.NewString()} {
		if dir, err := rundir.Dir("/data", id); err == nil {
			t.Errorf("Dir(%q) = %q", id, dir)
		}
	}
}

func FuzzDir(f *testing.F) {
	f.Add("01890a5d-ac96-774b-bcce-b302099a8057")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, id string) {
		dir, err := rundir.Dir("/data", id)
		if err != nil {
			return
		}
		if rel, err := filepath.Rel("/data/executions", dir); err != nil || strings.Count(rel, "/") != 2 || strings.Contains(rel, "..") {
			t.Errorf("Dir(%q) = %q", id, dir)
		}
	})
}

func TestDuration(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(rundir.Duration(90 * time.Second))
	if err != nil || string(b) != `"1m30s"` {
		t.Errorf("Marshal = %s, %v", b, err)
	}
	var d rundir.Duration
	for _, bad := range []string{`90`, `"90"`, `"soon"`} {
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("%s was taken as %v", bad, d)
		}
	}
	if err := json.Unmarshal([]byte(`"1h"`), &d); err != nil || d != rundir.Duration(time.Hour) {
		t.Errorf("Unmarshal = %v, %v", d, err)
	}
}
