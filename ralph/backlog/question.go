package backlog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// StatusQuestion is the status of a task that waits for an answer from the user.
// It cannot be claimed. Answering the question makes it open.
const StatusQuestion = taskjson.StatusQuestion

// NewQuestion is a question to ask with [Store.Ask].
type NewQuestion struct {
	Text         string        `json:"question"`
	Options      []string      `json:"options,omitempty"`       // suggested answers
	Default      string        `json:"default,omitempty"`       // the recommended answer
	DefaultAfter time.Duration `json:"default_after,omitempty"` // then Default is the answer; 0: never
}

// Question is a question about a task, and its answer.
type Question = taskjson.Question

// Pending returns the question that the task waits for.
func (t Task) Pending() (q Question, ok bool) {
	if n := len(t.Questions); t.Status == StatusQuestion && n > 0 && t.Questions[n-1].Answer == "" {
		return t.Questions[n-1], true
	}
	return q, false
}

// Answered returns the questions of the task that have an answer, oldest first.
func (t Task) Answered() []Question {
	var answered []Question
	for _, q := range t.Questions {
		if q.Answer != "" {
			answered = append(answered, q)
		}
	}
	return answered
}

// Ask parks an active task until its question is answered. Only the task's agent
// may ask; asking is not a failed attempt.
func (s *Store) Ask(ctx context.Context, slug, agent string, q NewQuestion) error {
	switch {
	case strings.TrimSpace(q.Text) == "":
		return errors.New("a question requires a text")
	case q.DefaultAfter != 0 && q.Default == "":
		return errors.New("a default answer is required to apply it after a time")
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		id, err := s.findActive(ctx, tx, slug)
		if err != nil {
			return err
		}
		asked := Question{Text: q.Text, Options: q.Options, Default: q.Default}
		var assignee, questions string
		err = tx.QueryRowContext(ctx, "SELECT COALESCE(assignee, ''), COALESCE(questions, '') FROM tasks WHERE id = ?", id).Scan(&assignee, &questions)
		if err == nil {
			asked.AskedAt, err = now(ctx, tx)
		}
		if err != nil {
			return err
		}
		if assignee != agent {
			return faultf(ErrNotAssignee, "agent '%s' is not the assignee of task '%s'", agent, slug)
		}
		if q.DefaultAfter != 0 {
			asked.DefaultAt = asked.AskedAt.Add(q.DefaultAfter)
		}
		return park(ctx, tx, id, append(decodeQuestions(questions), asked))
	})
}

// park makes a task wait for the answer to the last of its questions.
func park(ctx context.Context, tx *sql.Tx, id string, questions []Question) error {
	stored, err := encodeQuestions(questions)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE tasks SET status = 'question', questions = ?, assignee = NULL, lease_expires_at = NULL, result = NULL,
			updated_at = datetime('now')
		WHERE id = ?`, stored, id)
	return err
}

// Park makes a task that no agent holds wait for an answer of the user, who decides about its
// checks or the network. It is not a failed attempt.
func (s *Store) Park(ctx context.Context, slug string, q NewQuestion) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		tasks, err := s.selectTasks(ctx, tx, "t.slug = ?3", slug)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return taskNotFound(slug)
		}
		if status := tasks[0].Status; slices.Contains([]string{StatusActive, StatusQuestion, StatusDeleted}, status) {
			return faultf(ErrNotEligible, "task '%s' cannot wait for an answer (status: %s)", slug, status)
		}
		id, _, err := s.find(ctx, tx, slug)
		if err != nil {
			return err
		}
		asked := Question{Text: q.Text, Options: q.Options}
		if asked.AskedAt, err = now(ctx, tx); err != nil {
			return err
		}
		return park(ctx, tx, id, append(tasks[0].Questions, asked))
	})
}

// Questions returns the tasks that wait for an answer.
func (s *Store) Questions(ctx context.Context) ([]Task, error) {
	return s.List(ctx, Filter{Statuses: []string{StatusQuestion}})
}

// Answer answers the question of a task and reopens it. An empty answer is the
// default. It returns the answered question.
func (s *Store) Answer(ctx context.Context, slug, answer string) (answered Question, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		tasks, err := s.selectTasks(ctx, tx, "t.slug = ?3", slug)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return taskNotFound(slug)
		}
		q, ok := tasks[0].Pending()
		if !ok {
			return fmt.Errorf("task '%s' has no open question (status: %s)", slug, tasks[0].Status)
		}
		if q.Answer = strings.TrimSpace(answer); q.Answer == "" {
			q.Answer = q.Default
		}
		if q.Answer == "" {
			return fmt.Errorf("the question of task '%s' has no default answer", slug)
		}
		answered, err = s.answer(ctx, tx, tasks[0], q)
		return err
	})
	return answered, err
}

// ApplyDefaults answers the questions whose time is up with their defaults, and
// returns the tasks. [Store.Claim] does so as well.
func (s *Store) ApplyDefaults(ctx context.Context) (slugs []string, err error) {
	due := false // most calls need no write lock
	err = s.read(ctx, func(tx *sql.Tx) error {
		tasks, err := s.dueQuestions(ctx, tx)
		due = len(tasks) > 0
		return err
	})
	if err != nil || !due {
		return nil, err
	}
	err = s.write(ctx, func(tx *sql.Tx) (err error) {
		slugs, err = s.applyDefaults(ctx, tx)
		return err
	})
	return slugs, err
}

func (s *Store) applyDefaults(ctx context.Context, tx *sql.Tx) (slugs []string, err error) {
	tasks, err := s.dueQuestions(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		q, _ := t.Pending()
		q.Answer, q.Defaulted = q.Default, true
		if _, err := s.answer(ctx, tx, t, q); err != nil {
			return nil, err
		}
		slugs = append(slugs, t.Slug)
	}
	return slugs, nil
}

// dueQuestions returns the tasks whose default answer applies now, by the clock of
// the database.
func (s *Store) dueQuestions(ctx context.Context, tx *sql.Tx) (due []Task, err error) {
	tasks, err := s.selectTasks(ctx, tx, "t.status = 'question'")
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	at, err := now(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		if q, ok := t.Pending(); ok && q.Default != "" && !q.DefaultAt.IsZero() && !q.DefaultAt.After(at) {
			due = append(due, t)
		}
	}
	return due, nil
}

// answer stores an answered question and reopens its task.
func (s *Store) answer(ctx context.Context, tx *sql.Tx, t Task, q Question) (_ Question, err error) {
	if q.AnsweredAt, err = now(ctx, tx); err != nil {
		return q, err
	}
	t.Questions[len(t.Questions)-1] = q
	stored, err := encodeQuestions(t.Questions)
	if err != nil {
		return q, err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE tasks AS t SET status = 'open', questions = ?4, failures = 0, updated_at = datetime('now')
		WHERE `+inScope+" AND t.slug = ?3", s.args(t.Slug, stored)...)
	return q, err
}

// now returns the time of the database.
func now(ctx context.Context, tx *sql.Tx) (time.Time, error) {
	var text string
	if err := tx.QueryRowContext(ctx, "SELECT datetime('now')").Scan(&text); err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.DateTime, text)
}

func encodeQuestions(questions []Question) (string, error) {
	stored, err := json.Marshal(questions)
	if err != nil {
		return "", fmt.Errorf("encoding the questions: %w", err)
	}
	return string(stored), nil
}

// decodeQuestions ignores a value that another program has damaged.
func decodeQuestions(text string) (questions []Question) {
	if text != "" {
		_ = json.Unmarshal([]byte(text), &questions)
	}
	return questions
}
