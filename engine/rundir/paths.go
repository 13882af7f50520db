package rundir

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// NewID returns a time-ordered identifier (UUID version 7).
func NewID() string {
	return uuid.Must(uuid.NewV7()).String() // fails only where the system has no randomness
}

// Dir is where the execution with that id has its files: data/executions/YYYY/MM/ID,
// by the month (UTC) that the id carries.
func Dir(data, id string) (string, error) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.String() != id {
		return "", fmt.Errorf("execution id %q is not one of ours", id)
	}
	at := time.Unix(u.Time().UnixTime()).UTC()
	return filepath.Join(data, "executions", at.Format("2006"), at.Format("01"), id), nil
}
