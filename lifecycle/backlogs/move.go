package backlogs

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
)

// moveTimeout bounds the transfer of a database.
const moveTimeout = 15 * time.Minute

// mover moves a backlog between a worktree and a clone sandbox. At any time, the record says
// which of the two has it. Each step can be repeated.
type mover struct {
	Backlog
	driver lifecycle.Driver
	sb     lifecycle.Sandbox
	files  files
}

// MoveIn moves the backlog of a worktree into its running clone sandbox, unless it is there. It
// must be called before every command in such a sandbox, and does nothing for others. unused
// returns an error while another sandbox uses the backlog: one whose command begins later sees
// with [Backlog.InSandbox] that it has moved.
func (b Backlog) MoveIn(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, unused func() error) error {
	if !sb.Clone {
		return nil
	}
	if r, err := b.readOwner(); err != nil || r.State == inSandbox {
		return err
	}
	return b.move(ctx, driver, sb, func(m *mover, ctx context.Context) error {
		if err := unused(); err != nil {
			return err
		}
		return m.enter(ctx)
	})
}

// Return moves the backlog out of a running clone sandbox, in which nothing else runs, into its
// worktree. It must be called before such a sandbox is removed, and does nothing for others.
func (b Backlog) Return(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) error {
	if !sb.Clone {
		return nil
	}
	if r, err := b.readOwner(); err != nil || r.State == "" {
		return err
	}
	return b.move(ctx, driver, sb, (*mover).leave)
}

// Retire copies the backlog of a running clone sandbox whose worktree was removed, before the
// sandbox is removed. No other worktree gets it.
func (b Backlog) Retire(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) error {
	if r, err := b.readOwner(); err != nil || r.State == "" {
		return err
	}
	content, err := (&copier{Backlog: b, driver: driver, sb: sb}).export(ctx)
	if err == nil {
		_, err = b.save(content, time.Now(), "")
	}
	if err != nil && !errors.Is(err, errNoTasks) {
		return fmt.Errorf("copying the backlog of the sandbox %s: %w", sb.Name, err)
	}
	return b.forgetOwner()
}

// move does that under a lock.
func (b Backlog) move(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, do func(*mover, context.Context) error) error {
	return b.lockFiles(ctx, sb.Root, func(f files) error {
		return do(&mover{Backlog: b, driver: driver, sb: sb, files: f}, ctx)
	})
}

// enter moves the backlog into the sandbox.
func (m *mover) enter(ctx context.Context) error {
	for {
		r, err := m.readOwner()
		if err != nil {
			return err
		}
		switch r.State {
		case inSandbox:
			return nil
		case "":
			err = m.begin()
		case entering:
			err = m.send(ctx, r)
		case entered:
			err = m.finishEntering(r)
		case returned:
			err = m.finishReturn(ctx, r)
		default:
			err = unknownState(r)
		}
		if err != nil {
			return err
		}
	}
}

// leave moves the backlog into the worktree.
func (m *mover) leave(ctx context.Context) error {
	for {
		r, err := m.readOwner()
		if err != nil {
			return err
		}
		switch r.State {
		case "":
			return nil
		case entering:
			err = m.send(ctx, r)
		case entered:
			err = m.finishEntering(r)
		case inSandbox:
			err = m.fetch(ctx, r)
		case returned:
			err = m.finishReturn(ctx, r)
		default:
			err = unknownState(r)
		}
		if err != nil {
			return err
		}
	}
}

func unknownState(r ownerRecord) error {
	return hint.Wrap(fmt.Errorf("the backlog was moved by a newer version of docker-ralph: state %q", r.State), "upgrade docker-ralph")
}

// begin records a move into the sandbox.
func (m *mover) begin() error {
	r := ownerRecord{State: entering, ID: rand.Text(), Root: m.sb.Root}
	if !m.files.exists(database) {
		r.State = inSandbox
	}
	return m.saveOwner(r)
}

// send copies the database into the sandbox.
func (m *mover) send(ctx context.Context, r ownerRecord) error {
	stdin, to := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := m.files.send(to)
		_ = to.CloseWithError(err) // io.EOF without an error
		sent <- err
	}()
	var out bytes.Buffer
	err := m.transfer(ctx, stdin, &lifecycle.Limited{To: &out, Left: 4096}, "_move-in", r.ID)
	_ = stdin.Close() // one that keeps its own tasks does not read
	if sendErr := <-sent; sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) {
		return fmt.Errorf("moving the backlog into the sandbox %s: %w", m.sb.Name, sendErr)
	}
	if err != nil {
		err = fmt.Errorf("moving the backlog into the sandbox %s: %w", m.sb.Name, err)
		if _, failed := errors.AsType[*lifecycle.ExitError](err); failed {
			err = hint.Wrap(err, `if it is damaged, move %s aside and restore a copy with "docker ralph task restore"`, filepath.Join(m.sb.Root, ".ralph", database))
		}
		return err
	}
	r.State, r.Kept = entered, out.String() == "kept\n"
	return m.saveOwner(r)
}

// finishEntering moves the database of the worktree aside. A different one than the sandbox's is
// kept.
func (m *mover) finishEntering(r ownerRecord) error {
	to := aside
	if r.Kept {
		to = r.replacedName()
		if m.files.exists(database) {
			m.Host.Warn(hint.Wrap(fmt.Errorf("the sandbox %s has its own backlog", m.sb.Name), "the worktree's backlog is kept as .ralph/%s", to))
		}
	}
	if err := m.files.moveAside(to); err != nil {
		return fmt.Errorf("moving the backlog into the sandbox %s: %w", m.sb.Name, err)
	}
	if err := m.step("move aside"); err != nil {
		return err
	}
	r.State = inSandbox
	return m.saveOwner(r)
}

// fetch copies the database out of the sandbox.
func (m *mover) fetch(ctx context.Context, r ownerRecord) error {
	from, stdout := io.Pipe()
	type result struct {
		found bool
		err   error
	}
	received := make(chan result, 1)
	go func() {
		found, err := m.files.receive(from)
		if err == nil {
			_, err = io.Copy(io.Discard, from)
		}
		_ = from.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		received <- result{found, err}
	}()
	err := m.transfer(ctx, nil, stdout, "_move-out", r.ID)
	_ = stdout.CloseWithError(err) // io.EOF without an error
	got := <-received
	if _, failed := errors.AsType[*lifecycle.ExitError](err); got.err != nil && !failed {
		err = got.err
	}
	if err != nil {
		return fmt.Errorf("moving the backlog out of the sandbox %s: %w", m.sb.Name, err)
	}
	if err := m.step("fetch"); err != nil {
		return err
	}
	if !got.found && m.files.exists(aside) {
		m.Host.Warn(hint.Wrap(fmt.Errorf("the sandbox %s has lost its backlog: using the worktree's earlier one", m.sb.Name),
			`list newer copies with "docker ralph task restore --list"`))
	}
	r.State, r.Root = returned, m.sb.Root
	return m.saveOwner(r)
}

// finishReturn puts the database in place, and has the sandbox move its own aside.
func (m *mover) finishReturn(ctx context.Context, r ownerRecord) error {
	err := m.settle(m.files, r)
	if err == nil {
		err = m.step("settle")
	}
	if err == nil {
		err = m.transfer(ctx, nil, io.Discard, "_release", r.ID)
	}
	if err == nil {
		err = m.step("release")
	}
	if err == nil {
		err = m.files.remove(aside)
	}
	if err != nil {
		return fmt.Errorf("moving the backlog out of the sandbox %s: %w", m.sb.Name, err)
	}
	if err := m.step("remove aside"); err != nil {
		return err
	}
	return m.forgetOwner()
}

// transfer runs one of the hidden task commands.
func (m *mover) transfer(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	return lifecycle.RunService(ctx, m.driver, m.sb, stdin, stdout, append([]string{wire.Program, host.TaskCommand}, args...)...)
}
