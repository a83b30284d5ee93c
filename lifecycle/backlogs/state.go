package backlogs

import (
	"context"
	"errors"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Task is a task without control sequences: agents write the texts.
type Task struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Status   string `json:"status"` // open, active, finished, done, blocked, question, deleted
	Priority int    `json:"priority"`
	Reason   string `json:"reason,omitempty"` // of its last failure
}

// Tasks returns the tasks of a scope, also deleted ones; none without a backlog.
func Tasks(ctx context.Context, h host.Host, name string, scope gitrepo.Scope) (tasks []Task, err error) {
	err = reading(ctx, h, name, scope, func(s *backlog.Store) error {
		all, err := s.List(ctx, backlog.Filter{All: true})
		for _, t := range all {
			if t.Status == backlog.StatusWaiting {
				t.Status = backlog.StatusOpen // it becomes so without an event
			}
			tasks = append(tasks, Task{termsafe.Line(t.Slug), termsafe.Line(t.Title), termsafe.Line(t.Status), t.Priority, termsafe.Line(t.FailReason)})
		}
		return err
	})
	return tasks, err
}

// Counts counts the tasks of a backlog.
func Counts(ctx context.Context, s *backlog.Store) (*runlog.Counts, error) {
	n, err := s.Counts(ctx)
	return &runlog.Counts{Open: n.Open, Active: n.Active, Done: n.Done, Blocked: n.Failed, Waiting: n.Waiting, Question: n.Questions}, err
}

// CountsOf counts the tasks of a scope; nil without a backlog.
func CountsOf(ctx context.Context, h host.Host, name string, scope gitrepo.Scope) (counts *runlog.Counts, err error) {
	err = reading(ctx, h, name, scope, func(s *backlog.Store) error {
		counts, err = Counts(ctx, s)
		return err
	})
	return counts, err
}

// Questions returns the questions of a scope without an answer. Those whose time is up get their default answers.
func Questions(ctx context.Context, h host.Host, name string, scope gitrepo.Scope) (open []taskjson.OpenQuestion, err error) {
	err = reading(ctx, h, name, scope, func(s *backlog.Store) error {
		open, err = OpenQuestions(ctx, s)
		return err
	})
	return open, err
}

// OpenQuestions returns the same of an open backlog.
func OpenQuestions(ctx context.Context, s *backlog.Store) ([]taskjson.OpenQuestion, error) {
	if _, err := s.ApplyDefaults(ctx); err != nil {
		return nil, err
	}
	tasks, err := s.Questions(ctx)
	var open []taskjson.OpenQuestion
	for _, t := range tasks {
		if q, pending := t.Pending(); pending {
			open = append(open, taskjson.OpenQuestion{ID: t.Slug, Title: t.Title, Question: q})
		}
	}
	return open, err
}

// reading calls read with the backlog of a scope, if there is one.
func reading(ctx context.Context, h host.Host, name string, scope gitrepo.Scope, read func(*backlog.Store) error) error {
	s, err := Read(ctx, h, name, scope)
	if err != nil || s == nil {
		return err
	}
	return errors.Join(read(s), s.Close())
}
