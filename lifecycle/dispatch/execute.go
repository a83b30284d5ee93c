package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/printable"
)

// execute runs the process and passes signals on to it. The context's end is
// a signal like the others: the program inside shall end in its own way, and
// the sandbox lives on.
func (h Host) execute(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, p lifecycle.Process, command string) (int, error) {
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
	defer h.transcribe(sb.Root, command, &p)()
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
			return h.mind(context.WithoutCancel(ctx), driver, sb, sb.Root, p.ID)
		}
		return code, err // its end is noted when all is done
	}
	if h.away != nil && !errors.Is(err, lifecycle.ErrDetached) {
		h.away.ended = err // the note is kept, as the loop may be started again
		return code, err
	}
	n.done(err)
	if errors.Is(err, lifecycle.ErrDetached) {
		h.report(fmt.Sprintf("\nDetached: ralph %s goes on in the sandbox %s", command, sb.Name))
		return 0, err
	}
	return code, err
}

// conclude does what is to be done after a command, which has ended with the code
// or the error: its commits come home, and a sandbox for one dispatch goes.
func (h Host) conclude(ctx context.Context, at place, wt gitrepo.Worktree, spec lifecycle.Spec, sb lifecycle.Sandbox, command string, code int, err error) (int, error) {
	var unsaved error
	if err == nil && command != taskCommand {
		unsaved = h.bringHome(ctx, at, wt, sb)
	}
	h.tellEnded(ctx, at.driver, sb, command, code, errors.Join(err, unsaved))
	if spec.Ephemeral && sb.Name != "" && !errors.Is(err, lifecycle.ErrDetached) && unsaved == nil {
		err = errors.Join(err, h.discard(ctx, at, wt, sb, err == nil || at.git != nil && !at.git.repo.Unfinished()))
	}
	if unsaved != nil && code != 0 {
		h.report(fmt.Sprintf("Warning: %v", unsaved)) // how the command ended says more
		return code, err
	}
	return code, errors.Join(unsaved, err)
}

// dispatchID is the identity of a new dispatch.
func (h Host) dispatchID() string {
	if h.away != nil {
		return h.away.id
	}
	return rand.Text()
}
