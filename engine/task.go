package engine

import "time"

// TaskStatus is where a task stands.
type TaskStatus string

// The statuses of a task.
const (
	Todo       TaskStatus = "todo"
	InProgress TaskStatus = "in_progress"
	Review     TaskStatus = "review"
	Done       TaskStatus = "done"
)

// Task is one conversation and its outcome; it holds executions.
type Task struct {
	ID           string     `json:"id"`
	Title        string     `json:"title"`
	Context      string     `json:"context,omitempty"`
	DocsPath     string     `json:"docsPath,omitempty"`
	CapabilityID string     `json:"capabilityId,omitempty"` // what `run` runs where nothing else is said
	Status       TaskStatus `json:"status"`
	Error        string     `json:"error,omitempty"` // why it came back to todo
	Tail         []string   `json:"tail,omitempty"`  // the last 50 lines of its latest execution
	CreatedBy    string     `json:"createdBy"`
	CreatedAt    time.Time  `json:"createdAt"`
	UpdatedAt    time.Time  `json:"updatedAt"`
}

// TailLines is how many lines of output a task keeps.
const TailLines = 50

// AfterExecution is where a task goes when one of its executions has ended: on
// success a person looks at it, otherwise it waits to be done again.
func AfterExecution(s Status) TaskStatus {
	if s == Succeeded {
		return Review
	}
	return Todo
}
