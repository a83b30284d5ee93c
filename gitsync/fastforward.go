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
		conflict, undo, err = r.writeFiles(ctx, st, edit, changes)
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

// writeFiles checks out changes. What a failure leaves half done is undone.
func (r *Repo) writeFiles(ctx context.Context, st *state, edit index.Edit, changes []hostgit.Change) (conflict *Conflict, undo func() error, err error) {
	p := st.Pending
	applied, err := r.applied(ctx, *st)
	if err != nil {
		return nil, nil, err
	}
	same, conflict, err := r.compare(ctx, changes, len(p.To), applied)
	if err != nil || conflict != nil {
		return conflict, nil, err
	}
	if err := r.saveWriting(st, same); err != nil {
		return nil, nil, err
	}
	conflict, undo, err = r.checkOut(ctx, edit, same, p.From, p.To)
	if err != nil {
		err = errors.Join(err, r.rollBack(context.WithoutCancel(ctx), p))
	}
	return conflict, undo, err
}

// saveWriting records that files may be half written from now on, and which have had the new content before.
func (r *Repo) saveWriting(st *state, same []hostgit.Change) error {
	st.Pending.Writing = true
	for _, c := range same {
		st.Pending.Same = append(st.Pending.Same, []byte(c.Path))
	}
	return r.save(*st)
}

// rollBack undoes what was written of a checkout that did not complete.
func (r *Repo) rollBack(ctx context.Context, p *pending) error {
	if !p.Writing {
		return nil
	}
	if has, err := r.hasCommit(ctx, p.To); err != nil || !has { // git gc may have removed it
		return err
	}
	return r.git.RollBack(ctx, p.interrupted())
}

func (p *pending) interrupted() hostgit.Interrupted {
	kept := map[string]bool{}
	for _, path := range p.Same {
		kept[string(path)] = true
	}
	return hostgit.Interrupted{From: p.From, To: p.To, Kept: kept}
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
// has moved, the index follows; otherwise the files that it has written are undone.
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
	switch {
	case branch != st.Branch: // its files are not those of another one
	case p.Edits || tip != p.To:
		err = r.rollBack(ctx, p)
	default:
		err = r.completeIndex(ctx, st)
	}
	if err != nil {
		return err
	}
	st.Pending = nil
	return r.save(*st)
}

// completeIndex brings the index and the files to where the branch is. What is not of the checkout is the user's change.
func (r *Repo) completeIndex(ctx context.Context, st *state) error {
	p := st.Pending
	edit := index.New(r.git, p.Token)
	defer edit.End()
	conflict, err := lockIndex(ctx, edit)
	if err == nil && conflict != nil {
		return asError(r.explain(ctx, conflict, st.Branch, p.From, p.To))
	}
	var there []hostgit.Change
	if err == nil {
		there, err = r.git.Complete(ctx, p.interrupted())
	}
	if err == nil {
		conflict, _, err = r.checkOut(ctx, edit, there, p.From, p.To)
	}
	if err == nil && !p.Undo {
		st.setSynced(p.To)
		err = r.setBase(ctx, p.To)
	}
	if err != nil || conflict != nil { // the user has removed the lock, and has changed the index
		return err
	}
	if err := edit.Commit(); err != nil {
		return fmt.Errorf("updating the index: %w", err)
	}
	return nil
}
