package rundir

// Cursor is a place in an events file: after the entry Seq, which ends at byte
// Offset. The zero value is the beginning.
type Cursor struct {
	Seq    int64 `json:"seq"`
	Offset int64 `json:"offset"`
}
