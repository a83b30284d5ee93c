package loop

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/docker-ralph/docker-ralph/ralph/session"
)

func (emptyBacklog) EndRun(context.Context, session.EndOfRun) (session.Verdict, error) {
	return session.Verdict{}, nil
}

// fileBacklog is a backlog whose tasks the test's agent does by running "done": each
// file in a folder is one finished task.
type fileBacklog struct {
	emptyBacklog
	mu       sync.Mutex
	dir      string
	tasks    map[string]session.Task
	held     []string // by the agent, after each run
	notes    []string
	forgiven []string
	ended    []session.EndOfRun
	park     func(*session.Task)                             // what happens to a parked task; nil: nothing
	answer   func(session.EndOfRun) (session.Verdict, error) // of EndRun; nil: everything is taken
}

func newFileBacklog(t *testing.T, slugs ...string) *fileBacklog {
	s := &fileBacklog{dir: t.TempDir(), tasks: map[string]session.Task{}}
	for _, slug := range slugs {
		s.tasks[slug] = session.Task{Status: statusOpen}
	}
	return s
}

// sync reads the agent's changes.
func (s *fileBacklog) sync() {
	for slug, task := range s.tasks {
		file := filepath.Join(s.dir, slug)
		if _, err := os.Stat(file); err == nil && os.Remove(file) == nil && task.Status != statusDone {
			task.Status, task.Assignee, task.ClaimedBy, task.Attempt = statusFinished, "3c9e", "3c9e", task.Attempt+1
			s.tasks[slug] = task
		}
		if _, err := os.Stat(file + ".ask"); err == nil && os.Remove(file+".ask") == nil {
			task.Status, task.Question = statusQuestion, &session.Question{Text: "Which?"}
			s.tasks[slug] = task
		}
		if _, err := os.Stat(file + ".fail"); err == nil && os.Remove(file+".fail") == nil {
			task.Status, task.Retries, task.Reason = statusOpen, task.Retries+1, "too hard"
			s.tasks[slug] = task
		}
	}
}

func (s *fileBacklog) Status(context.Context) (session.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync()
	var status session.Status
	for _, task := range s.tasks {
		switch task.Status {
		case statusOpen:
			status.Open++
		case statusActive, statusFinished:
			status.Active++
		case statusDone:
			status.Done++
		case statusQuestion:
			status.Question++
		case statusBlocked:
			status.Blocked++
		}
	}
	return status, nil
}

func (s *fileBacklog) Tasks(context.Context) (map[string]session.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync()
	return maps.Clone(s.tasks), nil
}

func (s *fileBacklog) Held(context.Context, string) ([]string, error) { return s.held, nil }

func (s *fileBacklog) Release(_ context.Context, _, slug, reason string) error {
	s.note("release %s: %s", slug, reason)
	return nil
}

func (s *fileBacklog) Forgive(_ context.Context, slug string) error {
	s.forgiven = append(s.forgiven, slug)
	return nil
}

func (s *fileBacklog) Explain(_ context.Context, slug, cause string) error {
	s.note("explain %s: %s", slug, cause)
	task := s.tasks[slug]
	task.Reason = cause + ": " + task.Reason
	s.tasks[slug] = task
	return nil
}

func (s *fileBacklog) Reopen(_ context.Context, slug, reason string) error {
	s.note("reopen %s: %s", slug, reason)
	task := s.tasks[slug]
	if task.Status, task.Retries, task.Reason = statusOpen, task.Retries+1, reason; task.Retries == 3 {
		task.Status = statusBlocked
	}
	s.tasks[slug] = task
	return nil
}

// EndRun is as in the backlog of a sandbox: only then, finished tasks are done.
func (s *fileBacklog) EndRun(_ context.Context, r session.EndOfRun) (v session.Verdict, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, r)
	if s.answer != nil {
		v, err = s.answer(r)
	}
	if err == nil && v.Refused == "" {
		for _, slug := range r.Tasks {
			task := s.tasks[slug]
			task.Status = statusDone
			s.tasks[slug] = task
		}
	}
	return v, err
}

func (s *fileBacklog) Park(_ context.Context, slug, question string, _ ...string) error {
	s.note("park %s: %s", slug, question)
	task := s.tasks[slug]
	task.Status, task.Question = statusQuestion, &session.Question{Text: question}
	if s.park != nil {
		s.park(&task)
	}
	s.tasks[slug] = task
	return nil
}

func (s *fileBacklog) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}
