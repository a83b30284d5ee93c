package backlogs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/hint"
)

// moveState is how far a backlog has moved into a clone sandbox, or out of it. Without one, the
// worktree has it.
type moveState string

const (
	// entering: the worktree has the backlog, and the sandbox may have a copy.
	entering moveState = "entering"
	// entered: the sandbox has the backlog, and the worktree may have the files of its own.
	entered moveState = "entered"
	// inSandbox: the sandbox has the backlog.
	inSandbox moveState = "sandbox"
	// returned: the worktree has the backlog, possibly under another name, and the sandbox may
	// have a copy.
	returned moveState = "returned"
)

// ownerRecord says who owns a backlog. There is none for one that never left the worktree.
type ownerRecord struct {
	State moveState `json:"state"`
	// ID is that of the move. The sandbox records it beside its database.
	ID string `json:"id"`
	// Root is the worktree.
	Root string `json:"root"`
	// Kept means that the sandbox had tasks of its own.
	Kept bool `json:"kept,omitempty"`
}

// replacedName is the name for a database that a different one replaces.
func (r ownerRecord) replacedName() string { return replaced + r.ID[:min(8, len(r.ID))] }

func (b Backlog) ownerPath() string { return filepath.Join(b.dir(), "owner.json") }

func (b Backlog) readOwner() (r ownerRecord, err error) {
	content, err := os.ReadFile(b.ownerPath())
	if errors.Is(err, fs.ErrNotExist) {
		return ownerRecord{}, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err == nil && r.ID == "" {
		err = errors.New("missing ID")
	}
	if err != nil {
		return ownerRecord{}, fmt.Errorf("reading %s: %w", b.ownerPath(), err)
	}
	return r, nil
}

func (b Backlog) saveOwner(r ownerRecord) error {
	content, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(b.dir(), 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(b.ownerPath(), append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording where the backlog is: %w", err)
	}
	return b.step("record " + string(r.State))
}

func (b Backlog) forgetOwner() error {
	if err := os.Remove(b.ownerPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("recording that the backlog is in the worktree: %w", err)
	}
	return b.step("forget")
}

// step is called after each step of a move. Tests end the move there.
func (b Backlog) step(name string) error {
	if b.afterStep == nil {
		return nil
	}
	return b.afterStep(name)
}

// InSandbox reports whether the backlog is in a clone sandbox, after any move that another process
// has begun. An interrupted move out of one is completed in the worktree; what is left to do in the
// sandbox can wait.
func (b Backlog) InSandbox(ctx context.Context) (bool, error) {
	unlock, err := b.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	r, err := b.readOwner()
	if err == nil && r.State == returned {
		err = b.withFiles(r.Root, func(f files) error { return b.settle(f, r) })
	}
	return r.State == entered || r.State == inSandbox, err
}

// Reclaim makes the worktree the owner of a backlog again when its sandbox, or the volume of that, is
// discarded, with what it had when the backlog moved.
func (b Backlog) Reclaim(ctx context.Context) error {
	r, err := b.readOwner()
	if err != nil || r.State == "" {
		return err
	}
	if !host.Missing(r.Root) {
		if err := b.lockFiles(ctx, r.Root, func(f files) error { return b.settle(f, r) }); err != nil {
			return err
		}
	}
	return b.forgetOwner()
}

// lockFiles calls do with the files of a worktree, while no other process moves the backlog.
func (b Backlog) lockFiles(ctx context.Context, root string, do func(files) error) error {
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return b.withFiles(root, do)
}

// lock waits for other processes that move the backlog.
func (b Backlog) lock(ctx context.Context) (unlock func(), err error) {
	lock, err := b.Host.LockFile(b.Sandbox + ".backlog")
	if err != nil {
		return nil, err
	}
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return func() { _ = lock.Close() }, nil
}

func (b Backlog) withFiles(root string, do func(files) error) error {
	f, err := openDatabase(root)
	if err != nil {
		return err
	}
	defer f.close()
	return do(f)
}

// settle completes a move out of a sandbox in the worktree.
func (b Backlog) settle(f files, r ownerRecord) error {
	to := r.replacedName() + "-2"
	if f.exists(arrived) && f.exists(database) {
		b.Host.Warn(hint.Wrap(errors.New("another program has created a backlog in the worktree"), "it is kept as .ralph/%s", to))
	}
	return f.settle(to)
}
