package run

import (
	"bytes"
	"context"
	"io"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

func (t Target) backlog(h host.Host) backlogs.Backlog {
	b := backlogs.Backlog{Host: h, Sandbox: t.name, Root: t.spec.Root}
	if t.spec.Clone {
		b.Sandbox = t.spec.Name // also of one for this command only
		b.Root = ""             // it is in the clone
	}
	return b
}

// keepBacklog copies the backlog, see [backlogs.Backlog.Keep].
func (t Target) keepBacklog(ctx context.Context, h host.Host, sb lifecycle.Sandbox, id string, died bool) (after func(code int) error, _ error) {
	if !host.IsLoop(t.opts.Command) && !backlogs.Imports(t.opts.Command, t.opts.Args) || t.spec.Ephemeral {
		return func(int) error { return nil }, nil
	}
	return t.backlog(h).Keep(ctx, t.Driver, sb, t.opts.Command, id, died)
}

// RestoreBacklog replaces the backlog of the current scope by a copy, the newest one if
// name is empty. The replaced one is copied if it can be read.
func RestoreBacklog(ctx context.Context, h host.Host, opts Options, name string) (int, error) {
	content, err := backlogs.OpenCopy(ctx, h, opts.Worktree, name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = content.Close() }() // only read
	h.Stdin, h.Terminal = content, nil
	opts.Command, opts.Args = host.TaskCommand, []string{backlogs.ImportCommand}
	return Run(ctx, h, opts)
}

// taskOutputMax bounds what is read of a task command, in bytes: an agent writes the tasks.
const taskOutputMax = 16 << 20

// TaskOutput runs a task command in the sandbox of the current scope, without a terminal,
// and returns the beginning of what it prints on standard output. The input may be nil.
func TaskOutput(ctx context.Context, h host.Host, opts Options, input io.Reader, args ...string) (out []byte, code int, err error) {
	var b bytes.Buffer
	h.Stdin, h.Terminal, h.Stdout = input, nil, &lifecycle.Limited{To: &b, Left: taskOutputMax}
	opts.Command, opts.Args = host.TaskCommand, args
	code, err = Run(ctx, h, opts)
	return b.Bytes(), code, err
}
