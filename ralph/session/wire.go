package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

const (
	taskPath  = "/v1/task"
	beginPath = "/v1/begin"
	loopPath  = "/v1/loop/" // followed by the name of an operation
	// requestHeader has the random ID of a loop's request.
	requestHeader = "Ralph-Request"
	// MaxRequest bounds the body of a request, in bytes.
	MaxRequest = 8 << 20
	// maxAnswer bounds the body of an answer, in bytes.
	maxAnswer = 32 << 20
)

// TaskRequest is a task command.
type TaskRequest struct {
	ID       string              `json:"id"` // random; a repeated request is not executed again
	Args     []string            `json:"args"`
	Agent    string              `json:"agent,omitempty"`
	Stdin    []byte              `json:"stdin,omitempty"`
	Specs    []string            `json:"specs,omitempty"`
	Attempts map[string][]string `json:"attempts,omitempty"`
}

// TaskResponse is its result.
type TaskResponse struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	Code   int    `json:"code"`
}

// loopRequest are the arguments of a loop's operation.
type loopRequest struct {
	Agent   string   `json:"agent,omitempty"`
	Slug    string   `json:"slug,omitempty"`
	Text    string   `json:"text,omitempty"` // a reason, a cause or a question
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`
	Options []string `json:"options,omitempty"`

	Run *EndOfRun `json:"run,omitempty"`
}

// operations are what a loop does with its backlog, by name.
func operations() map[string]func(context.Context, Backlog, loopRequest) (any, error) {
	return map[string]func(context.Context, Backlog, loopRequest) (any, error){
		"register": func(ctx context.Context, b Backlog, _ loopRequest) (any, error) { return b.Register(ctx) },
		"deregister": func(ctx context.Context, b Backlog, r loopRequest) (any, error) {
			return nil, b.Deregister(ctx, r.Agent)
		},
		"begin-run":  func(ctx context.Context, b Backlog, r loopRequest) (any, error) { return nil, b.BeginRun(ctx, r.Agent) },
		"status":     func(ctx context.Context, b Backlog, _ loopRequest) (any, error) { return b.Status(ctx) },
		"tasks":      func(ctx context.Context, b Backlog, _ loopRequest) (any, error) { return b.Tasks(ctx) },
		"claimable":  func(ctx context.Context, b Backlog, _ loopRequest) (any, error) { return b.Claimable(ctx) },
		"held":       func(ctx context.Context, b Backlog, r loopRequest) (any, error) { return b.Held(ctx, r.Agent) },
		"renew":      func(ctx context.Context, b Backlog, r loopRequest) (any, error) { return nil, b.Renew(ctx, r.Agent) },
		"forgive":    func(ctx context.Context, b Backlog, r loopRequest) (any, error) { return nil, b.Forgive(ctx, r.Slug) },
		"overtaken":  func(ctx context.Context, b Backlog, r loopRequest) (any, error) { return b.Overtaken(ctx, r.Agent) },
		"adopt-hint": func(ctx context.Context, b Backlog, _ loopRequest) (any, error) { return b.AdoptHint(ctx) },
		"park": func(ctx context.Context, b Backlog, r loopRequest) (any, error) {
			return nil, b.Park(ctx, r.Slug, r.Text, r.Options...)
		},
		"explain": func(ctx context.Context, b Backlog, r loopRequest) (any, error) {
			return nil, b.Explain(ctx, r.Slug, r.Text)
		},
		"reopen": func(ctx context.Context, b Backlog, r loopRequest) (any, error) {
			return nil, b.Reopen(ctx, r.Slug, r.Text)
		},
		"release": func(ctx context.Context, b Backlog, r loopRequest) (any, error) {
			return nil, b.Release(ctx, r.Agent, r.Slug, r.Text)
		},
		"accepted": func(ctx context.Context, b Backlog, _ loopRequest) (any, error) { return b.Accepted(ctx) },
		"end-run": func(ctx context.Context, b Backlog, r loopRequest) (any, error) {
			if r.Run == nil {
				return nil, errors.New("the request has no run")
			}
			return b.EndRun(ctx, *r.Run)
		},
		"rename-commit": func(ctx context.Context, b Backlog, r loopRequest) (any, error) {
			return nil, b.RenameCommit(ctx, r.Slug, r.From, r.To)
		},
		"apply-defaults": func(ctx context.Context, b Backlog, _ loopRequest) (any, error) { return b.ApplyDefaults(ctx) },
	}
}

// failure is the answer to a request that has failed.
type failure struct {
	Error string   `json:"error"`
	Kind  string   `json:"kind,omitempty"` // of kinds
	Hints []string `json:"hints,omitempty"`
}

// kinds are the errors that callers tell apart.
func kinds() map[string]error {
	return map[string]error{
		"not-found": backlog.ErrNotFound, "not-eligible": backlog.ErrNotEligible, "not-active": backlog.ErrNotActive, "not-done": backlog.ErrNotDone,
		"not-assignee": backlog.ErrNotAssignee, "lost": backlog.ErrLost, "too-large": backlog.ErrTooLarge, "damaged": backlog.ErrDamaged,
		"locked": backlog.ErrLocked, "not-exist": fs.ErrNotExist, "running": runlog.ErrRunning,
		"environment": ErrEnvironment,
	}
}

func failureOf(err error) failure {
	f := failure{Error: err.Error(), Hints: hint.Of(err)}
	for name, kind := range kinds() {
		if errors.Is(err, kind) && f.Kind != "environment" { // which can wrap others
			f.Kind = name
		}
	}
	return f
}

// remoteError is an error of the host.
type remoteError struct {
	text string
	kind error // nil for others than kinds
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

func (f failure) err() error {
	var err error = &remoteError{f.Error, kinds()[f.Kind]}
	for i := len(f.Hints) - 1; i >= 0; i-- { // the outermost is the first
		err = hint.Wrap(err, "%s", f.Hints[i])
	}
	return err
}

// decodeStrictly reads one JSON value of a known form.
func decodeStrictly(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, after := d.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("unexpected data after it")
		}
	}
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	return nil
}
