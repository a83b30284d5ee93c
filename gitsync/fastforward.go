package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/index"
)

// indexLockTimeout is how long another git may hold the lock of the user's index.
const indexLockTimeout = 3 * time.Second

// fastForward moves the user's branch from one commit to another, with the index and files if it is
// checked out.
func (r *Repo) fastForward(ctx context.Context, st *state, from, to string) (*Conflict, error) {
	changes, err := r.git.Changes(ctx, from, to)
	if err != nil {
		return nil, err
	}
	st.Pending = &pending{From: from, To: to, Token: index.NewToken()}
	if err := r.save(*st); err != nil {
		return nil, err
	}
	conflict, err := r.editIndex(ctx, st.Pending.Token, r.checkoutBranch(st.Branch, changes, from, to), func() error { return r.moveBranch(ctx, st.Branch, from, to) })
	if err != nil {
		return nil, err
	}
	if conflict == nil {
		st.setSynced(to)
	}
	st.Pending = nil
	return conflict, r.save(*st)
}

// moveBranch updates the user's branch and the base in one transaction, if the branch
// has not moved.
func (r *Repo) moveBranch(ctx context.Context, branch, from, to string) error {
	if from == "" {
		from = strings.Repeat("0", len(to))
	}
	input := fmt.Sprintf("update refs/heads/%s %s %s\nupdate %s %s\n", branch, to, from, r.base(), to)
	_, err := r.git.Output(ctx, strings.NewReader(input), "update-ref", "-m", "ralph: fast-forward from the sandbox "+r.name, "--stdin")
	if err != nil {
		return fmt.Errorf("fast-forwarding %s: %w", branch, err)
	}
	return nil
}

// indexChange applies changes to a copy of the user's index. If the branch cannot be moved
// then, undo is called; it may be nil.
type indexChange func(ctx context.Context, edit index.Edit) (conflict *Conflict, undo func() error, err error)

// checkoutBranch is checkoutChanges, but for a branch that is not checked out, which the user may
// have switched to since. Git cannot switch while its index is locked.
func (r *Repo) checkoutBranch(branch string, changes []hostgit.Change, from, to string) indexChange {
	return func(ctx context.Context, edit index.Edit) (*Conflict, func() error, error) {
		if now, err := r.git.Branch(ctx); err != nil || now != branch {
			return nil, nil, err
		}
		return r.checkoutChanges(changes, from, to)(ctx, edit)
	}
}

// editIndex applies changes to the user's index, and calls move while no other git can
// change the index.
func (r *Repo) editIndex(ctx context.Context, token string, update indexChange, move func() error) (conflict *Conflict, err error) {
	edit := index.New(r.git, token)
	defer edit.End()
	if conflict, err = lockIndex(ctx, edit); err != nil || conflict != nil {
		return conflict, err
	}
	conflict, undo, err := update(ctx, edit)
	if err != nil || conflict != nil {
		return conflict, err
	}
	if err := move(); err != nil {
		if undo != nil {
			err = errors.Join(err, undo())
		}
		return nil, err
	}
	if err := edit.Commit(); err != nil {
		return nil, fmt.Errorf("updating the index: %w", err)
	}
	return nil, nil
}

// lockIndex takes the lock of the user's index, which another git may hold for a moment.
func lockIndex(ctx context.Context, edit index.Edit) (conflict *Conflict, err error) {
	for deadline := time.Now().Add(indexLockTimeout); ; time.Sleep(20 * time.Millisecond) {
		if err = edit.Begin(); !errors.Is(err, fs.ErrExist) {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return &Conflict{Kind: indexLocked, Detail: edit.Lock}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("updating the index: %w", err)
	}
	return nil, nil
}

// completePending completes the fast-forward of a killed command: if the user's branch
// has moved, the index follows; otherwise nothing has happened.
func (r *Repo) completePending(ctx context.Context, st *state) error {
	p := st.Pending
	if p == nil {
		return nil
	}
	index.New(r.git, p.Token).End()
	tip, err := r.git.Resolve(ctx, "refs/heads/"+st.Branch)
	if err != nil {
		return err
	}
	branch, err := r.git.Branch(ctx)
	if err != nil {
		return err
	}
	if tip == p.To && branch == st.Branch {
		changes, err := r.git.Changes(ctx, p.From, p.To)
		if err != nil {
			return err
		}
		conflict, err := r.editIndex(ctx, p.Token, r.checkoutChanges(changes, p.From, p.To), func() error { return r.setBase(ctx, p.To) })
		if err != nil {
			return err
		}
		if conflict != nil && conflict.Kind == indexLocked {
			return asError(r.explain(ctx, conflict, st.Branch, p.From, p.To))
		}
		st.setSynced(p.To)
	}
	st.Pending = nil
	return r.save(*st)
}
