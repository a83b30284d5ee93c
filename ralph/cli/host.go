package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire"
)

const (
	// taskWait is how long a task command waits for the host.
	taskWait = 2 * time.Minute
	// unbounded is the wait of a loop without max_wait.
	unbounded = 10 * 365 * 24 * time.Hour
)

// inSandbox reports whether this is a sandbox: the host has its backlog.
func inSandbox() bool { return os.Getenv(config.GuestEnv) != "" }

// host is the connection to the docker-ralph process on the host.
type host struct {
	*session.Client
	announce func(waiting bool) // that it waits, once
	mu       sync.Mutex
	report   func(waiting bool)
}

// connect returns a connection to the host, on which requests wait for it at most this long.
func (o Options) connect(wait time.Duration) (*host, error) {
	id := os.Getenv(wire.SessionEnv)
	if id == "" {
		return nil, hint.Wrap(errors.New("no connection to docker ralph"), "run it in a command started by docker ralph")
	}
	printed := false
	h := &host{announce: func(waiting bool) {
		if waiting && !printed {
			_, _ = fmt.Fprintln(o.Stderr, loop.WaitingForHost)
			printed = true
		}
	}}
	h.report = h.announce
	h.Client = session.NewClient(session.ClientOptions{
		Dial:  func(ctx context.Context) (net.Conn, error) { return guest.DialSession(ctx, id) },
		Token: o.token,
		Wait:  wait,
		Waiting: func(waiting bool) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.report(waiting)
		},
	})
	return h, nil
}

// begin tells the host that this process is the command of its session, without waiting for that, until stop is called.
func (o Options) begin(ctx context.Context) (stop func()) {
	if !inSandbox() || os.Getenv(wire.SessionEnv) == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h, err := o.connect(unbounded)
		if err == nil {
			h.onWait(func(bool) {}) // a task command says so itself
			err = h.Begin(ctx)
		}
		if err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintln(o.Stderr, "Warning: task commands will be refused:", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// onWait replaces what is called when a wait for the host begins and ends.
func (h *host) onWait(report func(waiting bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report = report
}

// interruptible makes the first signal end waits for the host. It does not keep the signal from others.
func (h *host) interruptible() (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			h.Interrupt()
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// runTask has the host run a task command, with what the command needs from the worktree.
func (h *host) runTask(ctx context.Context, args []string, stdin []byte) (session.TaskResponse, error) {
	r := session.TaskRequest{ID: rand.Text(), Args: args, Agent: os.Getenv("RALPH_AGENT_ID"), Stdin: stdin}
	switch args[0] {
	case "plan-sync":
		dir := "specs"
		if !isDir(dir) {
			dir = filepath.Join(worktree(ctx), dir)
		}
		var err error
		if r.Specs, err = backlog.SpecFiles(dir); err != nil {
			return session.TaskResponse{}, err
		}
	case "show":
		r.Attempts = attempt.Worktree(worktree(ctx)).List(ctx)
	}
	return h.Task(ctx, r)
}

// worktree returns the root of the current worktree, or ".".
func worktree(ctx context.Context) string {
	path, err := backlog.Locate(ctx)
	if err != nil {
		return "."
	}
	return filepath.Dir(filepath.Dir(path))
}
