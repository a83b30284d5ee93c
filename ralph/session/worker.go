package session

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// ErrInterrupted is returned by calls whose wait for the host was interrupted.
var ErrInterrupted = errors.New("interrupted while waiting for docker ralph on the host")

// ErrNoHost is wrapped if the host does not answer in time.
var ErrNoHost = errors.New("docker ralph on the host does not answer")

// Worker is the backlog of an agent that runs task commands.
type Worker struct{ stub }

type stub interface {
	Peek(ctx context.Context, n int) (claimable, held []backlog.Task, err error)
	Claim(ctx context.Context, o backlog.ClaimOptions) (backlog.Task, error)
	Renew(ctx context.Context, slug, agent string, lease time.Duration) error
	Done(ctx context.Context, slug, resultJSON string) error
	Fail(ctx context.Context, slug, reason string) error
	Show(ctx context.Context, slug string) (backlog.Task, error)
	Sync(ctx context.Context, r io.Reader, specs ...string) (backlog.SyncSummary, error)
}

// NewWorker returns a worker.
func NewWorker(func(ctx context.Context, args []string, stdin []byte) (TaskResponse, error)) *Worker {
	panic("stub")
}
