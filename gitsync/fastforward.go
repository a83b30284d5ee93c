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

// fastForwarded begins the entry of a fast-forward in the reflog of the user's branch; the name of the sandbox follows.
const fastForwarded = "ralph: fast-forward from the sandbox "

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
	conflict, err := r.editIndex(ctx, st, changes, func() error { return r.moveBranch(ctx, st.Branch, from, to) })
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
	_, err := r.git.Output(ctx, strings.NewReader(input), "update-ref", "-m", fastForwarded+r.name, "--stdin")
	if err != nil {
		return fmt.Errorf("fast-forwarding %s: %w", branch, err)
	}
	return nil
}

// editIndex checks out changes, and calls move while no other git can change the index. What
// was checked out is undone if move fails. Nothing is checked out if the user has switched to
// another branch, which git cannot do meanwhile.
func (r *Repo) editIndex(ctx context.Context, st *state, changes []hostgit.Change, move func() error) (conflict *Conflict, err error) {
	edit, undo := index.New(r.git, st.Pending.Token), func() error { return nil }
	defer edit.End()
	if conflict, err = lockIndex(ctx, edit); err != nil || conflict != nil {
		return conflict, err
	}
	branch, err := r.git.Branch(ctx)
	if err == nil && branch == st.Branch {
		conflict, undo, err = r.checkOut(ctx, edit, changes, st.Pending.From, st.Pending.To)
	} else if err == nil {
		var now snapshot
		switch now, err = r.snapshot(ctx, st.Branch); {
		case now.elsewhere:
			conflict = &Conflict{Kind: checkedOutElsewhere}
		case now.used != "":
			conflict = &Conflict{Kind: operationElsewhere, Detail: now.used}
		}
	}
	if err != nil || conflict != nil {
		return conflict, err
	}
	if err := move(); err != nil {
		return nil, errors.Join(err, undo())
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
// has moved, the index follows; otherwise a file may be half-written.
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
	if branch != st.Branch { // its files are not those of another one
		st.Pending = nil
		return r.save(*st)
	}
	if tip == p.To {
		changes, err := r.git.Changes(ctx, p.From, p.To)
		if err != nil {
			return err
		}
		conflict, err := r.editIndex(ctx, st, changes, func() error {
			if p.Undo {
				return nil
			}
			return r.setBase(ctx, p.To)
		})
		if err != nil {
			return err
		}
		if conflict != nil && conflict.Kind == indexLocked {
			return asError(r.explain(ctx, conflict, st.Branch, p.From, p.To))
		}
		if !p.Undo {
			st.setSynced(p.To)
		}
	} else if err := r.removeParts(ctx, p); err != nil {
		return err
	}
	st.Pending = nil
	return r.save(*st)
}

// removeParts removes half-written files of a fast-forward that was killed, so that they are not
// taken for changes of the user.
func (r *Repo) removeParts(ctx context.Context, p *pending) error {
	if has, err := r.hasCommit(ctx, p.To); err != nil || !has { // git gc may have removed it
		return err
	}
	changes, err := r.git.Changes(ctx, p.From, p.To)
	if err != nil || len(changes) == 0 {
		return err
	}
	entries, err := r.git.Index(ctx)
	if err != nil {
		return err
	}
	return r.git.RemoveParts(ctx, entries, changes, len(p.To))
}
