package backlogs

import (
	"cmp"
	"encoding/json"
	"errors"
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
	limited := &io.LimitedReader{R: file, N: tasksMax}
	var tasks []Task
	err = eachTask(json.NewDecoder(limited), func(t copied) {
		if t.Repo != repo || t.Branch != branch || t.Status == "deleted" {
			return
		}
		if t.Status == "open" && t.Failures >= maxFailures {
			t.Status = "blocked"
		}
		tasks = append(tasks, Task{termsafe.Line(t.Slug), termsafe.Line(t.Title), termsafe.Line(t.Status), t.Priority, termsafe.Line(t.FailReason)})
	})
	if limited.N <= 0 {
		err = fmt.Errorf("more than %d MiB", tasksMax>>20)
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("parsing a copy of the backlog: %w", err)
	}
	return tasks, copies[0].Taken, nil
}

// tasksMax bounds the copy of a backlog that is shown, in bytes.
const tasksMax = 16 << 20

// copied is a task in a copy of a backlog.
type copied struct {
	Slug       string
	Title      string
	Status     string
	Priority   int
	Failures   int
	FailReason string `json:"fail_reason"`
	Repo       string `json:"scope_repo"`
	Branch     string `json:"scope_branch"`
}

// eachTask reads the tasks of a copy one by one: an agent can have written very many small ones.
func eachTask(d *json.Decoder, use func(copied)) error {
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return cmp.Or(err, errors.New("not an object"))
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key != "tasks" {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return err
			}
			continue
		}
		if start, err := d.Token(); err != nil || start != json.Delim('[') {
			return cmp.Or(err, errors.New("tasks are not a list"))
		}
		for d.More() {
			var t copied
			if err := d.Decode(&t); err != nil {
				return err
			}
			use(t)
		}
		if _, err := d.Token(); err != nil { // the end of the list
			return err
		}
	}
	_, err := d.Token() // the end of the object
	return err
}
