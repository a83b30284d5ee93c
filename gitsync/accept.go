package gitsync

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
)

// WithLoop returns the repository for a loop: from [Repo.MarkDirty] on, the user's branch gets commits by
// [Repo.Accept] only, until another command pushes.
func (r *Repo) WithLoop() *Repo {
	with := *r
	with.loop = true
	return &with
}

// PushAhead is [Repo.Push] while a loop goes on in the sandbox, which stays on its branch, whatever the user has
// checked out.
func (r *Repo) PushAhead(ctx context.Context, sh Shell) (Result, error) {
	with := r.WithLoop()
	with.stay = true
	return with.Push(ctx, sh)
}

// RejectedError says that the user's repository does not take the commits of a run, for a reason that another
// run can avoid.
type RejectedError struct{ Err error }

// Error is for an agent, as opposed to that of the cause, which is for the user.
func (e *RejectedError) Error() string {
	if c, is := errors.AsType[*Conflict](e.Err); is {
		return c.rejection()
	}
	if held, is := errors.AsType[*HeldError](e.Err); is && len(held.Places) > 0 {
		return "the commits may contain secrets; none of them may, even if a later one removes them: " + strings.Join(held.Places, ", ")
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *RejectedError) Unwrap() error { return e.Err }

// rejected returns why another run has to repeat the commits; nil if not.
func rejected(res Result, err error) error {
	_, refused := errors.AsType[*RefusedError](err)
	_, held := errors.AsType[*HeldError](err)
	_, broken := errors.AsType[*BrokenError](err)
	switch c := res.Conflict; {
	case refused, held, broken:
		return &RejectedError{err}
	case err == nil && c != nil && c.rejection() != "":
		return &RejectedError{c}
	}
	return nil
}

// Accept fetches the commits of a run that a loop has completed, and fast-forwards the user's branch to the last
// one. If the repository takes them, but something prevents that for now, a later sync does it. A
// [*RejectedError] says that the repository does not take them.
func (r *Repo) Accept(ctx context.Context, sh Shell, commit string) (Result, error) {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	if r.git, err = r.git.Reload(ctx); err != nil {
		return Result{}, err
	}
	if !hostgit.IsObjectID(commit) {
		return Result{}, &RejectedError{fmt.Errorf("%.100q is not a commit", commit)}
	}
	// With a commit that was taken before, and is not on the user's branch yet, the sandbox's branch is looked at.
	if known, err := r.contains(ctx, st.Synced, commit); err != nil || known && st.Accepted == "" {
		return Result{Branch: st.Branch}, err
	}

	was := st.Accepted
	st.Loop, st.Accepted, r.after = true, commit, was
	res, err := r.fetchRefs(ctx, &st, sh, nil, false)
	if err == nil && st.Accepted == commit && res.goal != commit {
		err = &RefusedError{Sandbox: r.name, Why: fmt.Sprintf("the commit %.10s is not on branch %s of the sandbox", commit, st.Branch)}
	}
	if why := rejected(res, err); why != nil {
		err = why
	}
	if err == nil {
		err = r.recordUnmerged(&st, res, nil, false)
	} else if st.Accepted == commit {
		st.Accepted = was
	}
	if saveErr := r.save(st); saveErr != nil {
		return res, saveErr
	}
	return res, err
}

// contains reports whether a commit that may be empty contains another one, which may be missing.
func (r *Repo) contains(ctx context.Context, commit, ancestor string) (bool, error) {
	if commit == "" {
		return false, nil
	}
	if has, err := r.hasCommit(ctx, ancestor); err != nil || !has {
		return false, err
	}
	return r.git.Contains(ctx, commit, ancestor)
}

// Accepted returns the last commit of the sandbox's branch that the user's repository has accepted; empty if
// there is none.
func (r *Repo) Accepted() (string, error) {
	st, err := r.readState()
	if st.Accepted != "" {
		return st.Accepted, err
	}
	return st.Synced, err
}

// Ahead reports whether the user has committed to the branch since both sides had the same commit: a push brings
// that to the sandbox. It is false if a push does more, e.g. because the user has changed to another branch.
func (r *Repo) Ahead(ctx context.Context) (bool, error) {
	st, err := r.readState()
	if err != nil || st.Synced == "" || st.Accepted != "" || r.changes {
		return false, err
	}
	branch, err := r.git.Branch(ctx)
	if err != nil || branch != st.Branch {
		return false, err
	}
	tip, err := r.git.Resolve(ctx, "refs/heads/"+branch)
	if err != nil || tip == "" || tip == st.Synced {
		return false, err
	}
	return r.git.Contains(ctx, tip, st.Synced)
}

// Tree returns the tree of a commit. The commit can be an agent's.
func (r *Repo) Tree(ctx context.Context, commit string) (string, error) {
	if !hostgit.IsObjectID(commit) {
		return "", fmt.Errorf("%.100q is not a commit", commit)
	}
	tree, err := r.git.Line(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}")
	if err != nil {
		return "", fmt.Errorf("reading the commit %.10s: %w", commit, err)
	}
	return tree, nil
}

// EndLoop records that no loop runs in the sandbox any more: if it has left nothing that was not accepted, what
// other commands commit goes to the user's branch again.
func (r *Repo) EndLoop(ctx context.Context) error {
	return r.change(ctx, func(st *state) bool {
		if !st.Loop || st.Synced == "" || st.Tips["refs/heads/"+st.Branch] != st.Synced {
			return false
		}
		st.Loop = false
		return true
	})
}

// pushAccepted pushes. Commits that were not accepted stay for a loop, which sets them aside itself; for another
// command, and if the user's branch was moved back since, the user's repository keeps them.
func (r *Repo) pushAccepted(ctx context.Context, st *state, sh Shell, branch string, wasDetached bool, res *Result) error {
	if res.Unaccepted != "" && branch == st.Branch {
		if r.loop {
			if follows, err := r.git.Contains(ctx, "refs/heads/"+branch, st.Synced); err != nil || follows {
				return err
			}
		}
		kept := r.Prefix() + "/" + refname.Kept + res.tip
		if err := r.updateRefs(ctx, fmt.Sprintf("update %s %s\n", kept, res.tip)); err != nil {
			return err
		}
		res.Unaccepted = kept
	}
	if err := r.push(ctx, st, sh, branch, wasDetached, *res); err != nil || r.loop || !st.Loop {
		return err
	}
	st.Loop, st.Accepted = false, ""
	return r.save(*st)
}
