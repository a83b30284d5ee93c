package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/printable"
)

// executeSynced executes a command in a sandbox. If that has a git directory of its
// own, it is brought up to date before, and its commits are fetched meanwhile.
func executeSynced(ctx context.Context, at Target, sb lifecycle.Sandbox, command string, execute func() (int, error)) (int, error) {
	if at.git == nil {
		return execute()
	}
	if command == host.TaskCommand {
		if err := at.git.TakeUp(ctx, sb); err != nil {
			return 0, err
		}
		code, err := execute()
		if err == nil && code != 0 {
			at.git.RepairAfter(ctx, sb)
		}
		return code, err
	}
	leave, err := at.git.Enter(ctx, sb, command == host.ShellCommand)
	if err != nil {
		return 0, err
	}
	defer leave()
	return execute()
}

// execute runs the process and passes signals on to it. The context's end is
// a signal like the others: the program inside shall end in its own way, and
// the sandbox lives on.
func (h session) execute(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, p lifecycle.Process, command string) (int, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	signals, stop := h.Forward(ctx)
	defer stop()
	p.Signals, p.Terminal = signals, h.Terminal
	p.Stdout, p.Stderr = printable.NewWriter(h.Stdout), printable.NewWriter(h.Stderr)
	if h.raw {
		p.Stdout = h.Stdout
	}
	p.Stdin = h.Stdin
	defer transcribe(h.Host, sb.Root, command, &p)()
	if h.away != nil {
		p.Lost = h.away.lost
	}
	n, err := h.noteOnce(sb, p)
	if err != nil {
		return 0, err
	}
	defer h.watchBegin(sb, &p)()
	code, err := driver.Exec(context.WithoutCancel(ctx), sb, p)
	if h.away.left() && !errors.Is(err, lifecycle.ErrNotPrepared) {
		if errors.Is(err, lifecycle.ErrDetached) { // the terminal was not ours alone
			return mind(context.WithoutCancel(ctx), h.Host, driver, sb, sb.Root, p.ID)
		}
		return code, err // its end is noted when all is done
	}
	if h.away != nil && !errors.Is(err, lifecycle.ErrDetached) {
		h.away.ended = err // the note is kept, as the loop may be started again
		return code, err
	}
	n.Done(err)
	if errors.Is(err, lifecycle.ErrDetached) {
		h.Report(fmt.Sprintf("\nDetached: ralph %s goes on in the sandbox %s", command, sb.Name))
		return 0, err
	}
	return code, err
}

// conclude does what is to be done after a command, which has ended with the code
// or the error: its commits come home, and a sandbox for one dispatch goes.
func conclude(ctx context.Context, h host.Host, at Target, wt gitrepo.Worktree, spec lifecycle.Spec, sb lifecycle.Sandbox, command string, code int, err error) (int, error) {
	var unsaved error
	if err == nil && command != host.TaskCommand {
		unsaved = commits.Fetch(ctx, h, at.git, wt, sb)
	}
	tellEnded(ctx, h, at.Driver, sb, command, code, errors.Join(err, unsaved))
	if spec.Ephemeral && sb.Name != "" && !errors.Is(err, lifecycle.ErrDetached) && unsaved == nil {
		err = errors.Join(err, discard(ctx, h, at, wt, sb, err == nil || at.git != nil && !at.git.Repo.Unfinished()))
	}
	if unsaved != nil && code != 0 {
		h.Report(fmt.Sprintf("Warning: %v", unsaved)) // how the command ended says more
		return code, err
	}
	return code, errors.Join(unsaved, err)
}

// dispatchID is the identity of a new dispatch.
func (h session) dispatchID() string {
	if h.away != nil {
		return h.away.id
	}
	return rand.Text()
}
