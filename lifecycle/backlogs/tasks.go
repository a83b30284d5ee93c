package backlogs

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Task is a task of a copy. It is from the sandbox, without control sequences.
type Task struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Status   string `json:"status"` // open, active, done, blocked, …
	Priority int    `json:"priority"`
	Reason   string `json:"reason,omitempty"` // of its last failure
}

// maxFailures is how many failures block a task, as in the backlog.
const maxFailures = 3

// Tasks returns the tasks of a scope in the newest copy, and when it was taken; none without a
// copy.
func (b Backlog) Tasks(repo, branch string) ([]Task, time.Time, error) {
	copies, err := b.Copies()
	if err != nil || len(copies) == 0 {
		return nil, time.Time{}, err
	}
	file, err := copies[0].open()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = file.Close() }() // only read
	var content struct {
		Tasks []struct {
			Slug       string
			Title      string
			Status     string
			Priority   int
			Failures   int
			FailReason string `json:"fail_reason"`
			Repo       string `json:"scope_repo"`
			Branch     string `json:"scope_branch"`
		}
	}
	if err := json.NewDecoder(io.LimitReader(file, copyMax)).Decode(&content); err != nil {
		return nil, time.Time{}, fmt.Errorf("parsing a copy of the backlog: %w", err)
	}
	var tasks []Task
	for _, t := range content.Tasks {
		if t.Repo != repo || t.Branch != branch || t.Status == "deleted" {
			continue
		}
		if t.Status == "open" && t.Failures >= maxFailures {
			t.Status = "blocked"
		}
		tasks = append(tasks, Task{termsafe.Line(t.Slug), termsafe.Line(t.Title), termsafe.Line(t.Status), t.Priority, termsafe.Line(t.FailReason)})
	}
	return tasks, copies[0].Taken, nil
}
