package gitsync

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/listing"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
)

// Fetch fetches the sandbox's new commits and fast-forwards the user's branch if
// possible; to those of a loop's accepted runs only. ended says that no process in the sandbox commits any more.
func (r *Repo) Fetch(ctx context.Context, sh Shell, ended bool) (Result, error) {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	if r.git, err = r.git.Reload(ctx); err != nil {
		return Result{}, err
	}
	r.idle = ended
	res, err := r.fetch(ctx, &st, sh, nil, true)
	if err == nil {
		err = r.setReported(&st)
	}
	if err == nil && ended && st.Dirty {
		st.Dirty, st.Gated, st.Head = false, false, res.head
		err = r.save(st)
	}
	return res, err
}

// Follow fetches while an agent works. The user's branch is fast-forwarded to the commit
// final at most, because agents amend what they have just committed. tip is the last one.
func (r *Repo) Follow(ctx context.Context, sh Shell, final string) (res Result, tip string, err error) {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, "", err
	}
	defer unlock()
	if r.git, err = r.git.Reload(ctx); err != nil {
		return Result{}, "", err
	}
	res, err = r.fetch(ctx, &st, sh, &final, false)
	return res, res.tip, err
}

// notAfter returns a commit if a branch with that tip contains it; empty if not, or if it
// is not new.
func (r *Repo) notAfter(ctx context.Context, tip, final, synced string) (string, error) {
	switch {
	case final == tip:
		return tip, nil
	case !hostgit.IsObjectID(final):
		return "", nil
	}
	if has, err := r.git.Contains(ctx, tip, final); err != nil || !has {
		return "", nil //nolint:nilerr // the agent can have recorded anything
	}
	if synced != "" {
		if known, err := r.git.Contains(ctx, synced, final); err != nil || known {
			return "", err
		}
	}
	return final, nil
}

// setReported records that the user sees the refused refs.
func (r *Repo) setReported(st *state) error {
	changed := false
	for ref, bad := range st.Refused {
		changed = changed || !bad.Reported
		bad.Reported = true
		st.Refused[ref] = bad
	}
	if !changed {
		return nil
	}
	return r.save(*st)
}

// fetch fetches and fast-forwards, and records what the user's branch does not get. It is fast-forwarded to the
// commit final at most, if that is not nil. last says that no agent works, or that all is fetched again at its end.
func (r *Repo) fetch(ctx context.Context, st *state, sh Shell, final *string, last bool) (Result, error) {
	res, err := r.fetchRefs(ctx, st, sh, final, last)
	if saveErr := r.recordUnmerged(st, res, err, last); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	return res, err
}

// fetchRefs is fetch without the record.
func (r *Repo) fetchRefs(ctx context.Context, st *state, sh Shell, final *string, last bool) (Result, error) {
	if st.Branch == "" {
		branch, err := r.branch(ctx)
		if err != nil {
			return Result{}, err
		}
		st.Branch = branch
	}
	l, err := r.receive(ctx, st, sh, last)
	if err == nil {
		err = r.completePush(ctx, st, l)
	}
	if err != nil {
		return Result{}, err
	}
	own := "refs/heads/" + st.Branch
	if len(l.Moved(st.Tips)) == 0 && l.Refs[own] == st.Synced && !st.Retry && !r.repairing {
		return r.result(*st, l)
	}
	if err := r.undoRewinds(ctx, l, st.Tips); err != nil {
		return Result{}, err
	}
	user, err := r.snapshot(ctx, st.Branch)
	if err != nil {
		return Result{}, err
	}
	before := maps.Clone(st.Tips)
	submodules, err := r.submodules(ctx, user.tip, l.Moved(st.Tips))
	if err != nil {
		return Result{}, err
	}
	names, kept, err := r.updateSandboxRefs(ctx, st, l, user.refs, submodules)
	if err != nil {
		return Result{}, err
	}
	res, err := r.result(*st, l)
	res.Kept = kept
	for ref, name := range names {
		if ref != own && before[ref] != l.Refs[ref] {
			res.add(ref, r.Prefix()+"/"+name, submodules[l.Refs[ref]])
		}
	}
	if err != nil {
		return res, err
	}
	if err := r.setGoal(ctx, *st, &res, user, final); err != nil {
		return res, err
	}
	if res.goal != "" {
		err = r.syncBranch(ctx, st, &res, user)
	}
	if err != nil || res.goal == "" && !st.Loop {
		return res, err
	}
	if retry := res.Conflict != nil && res.Conflict.Transient(); retry != st.Retry {
		st.Retry = retry
		return res, r.save(*st)
	}
	return res, nil
}

// setGoal sets the commit of the sandbox's branch that the user's is fast-forwarded to, if any, and says where
// those are that a loop's gate keeps from it.
func (r *Repo) setGoal(ctx context.Context, st state, res *Result, user snapshot, final *string) (err error) {
	res.goal = res.tip
	if st.Loop {
		final = &st.Accepted
	}
	if r.after != "" && res.tip != "" { // taken before, and not on the user's branch yet
		if has, err := r.git.Contains(ctx, res.tip, r.after); err != nil {
			return err
		} else if !has {
			return &RefusedError{Sandbox: r.name, Why: fmt.Sprintf("the commit %.10s of an earlier run is no longer on branch %s", r.after, st.Branch)}
		}
	}
	if res.tip == "" || res.tip == user.tip || final == nil {
		return nil
	}
	if res.goal, err = r.notAfter(ctx, res.tip, *final, st.Synced); err != nil || !st.Loop || res.goal == res.tip {
		return err
	}
	for _, commit := range []string{st.Synced, st.Accepted, user.tip} {
		if has, err := r.contains(ctx, commit, res.tip); err != nil || has {
			return err
		}
	}
	res.Unaccepted = r.Prefix() + "/" + st.Branch
	if path, err := r.submodule(ctx, user.tip, res.tip); err != nil || path == "" {
		return err
	}
	res.Unaccepted = r.Prefix() + "/" + refname.Submodule + st.Branch
	return nil
}

// add adds a ref that was fetched, and the submodule that it adds.
func (res *Result) add(ref, at, submodule string) {
	res.Others[ref] = at
	if submodule != "" {
		res.Submodules[ref] = submodule
	}
}

// result returns what is known after the objects of a listing were received.
func (r *Repo) result(st state, l listing.Listing) (Result, error) {
	own := "refs/heads/" + st.Branch
	res := Result{
		Branch: st.Branch, Others: map[string]string{}, Submodules: map[string]string{}, Refused: map[string]string{}, Kept: map[string]string{},
		fresh: map[string]bool{}, tip: l.Refs[own], head: l.Head, refs: l.Refs,
	}
	if bad, is := st.Refused[own]; is {
		return res, &RefusedError{Sandbox: r.name, Why: bad.Why}
	}
	for ref, bad := range st.Refused {
		res.Refused[ref], res.fresh[ref] = bad.Why, !bad.Reported
	}
	return res, nil
}

// RefusedError says that the commits of the user's branch cannot be fetched.
type RefusedError struct{ Sandbox, Why string }

func (e *RefusedError) Error() string { return e.Why }

// syncBranch fast-forwards the user's branch to the goal, unless it has moved since
// both were the same.
func (r *Repo) syncBranch(ctx context.Context, st *state, res *Result, user snapshot) error {
	switch res.goal {
	case user.tip:
		if user.base == user.tip && st.Synced == user.tip {
			return nil
		}
		if err := r.setBase(ctx, user.tip); err != nil {
			return err
		}
		st.setSynced(user.tip)
		return r.save(*st)
	case user.base:
		return nil // only the user's branch has moved
	}
	conflict, err := r.explain(ctx, nil, st.Branch, user.tip, res.goal)
	if err != nil || conflict != nil {
		res.Conflict = conflict
		return err
	}
	ahead, conflict, err := r.canFastForward(ctx, st, res.goal, user)
	if err == nil && conflict == nil && ahead > 0 {
		conflict, err = r.fastForward(ctx, st, user.tip, res.goal)
	}
	if err != nil {
		// The user may have committed in the meantime.
		now, snapshotErr := r.snapshot(ctx, st.Branch)
		if snapshotErr != nil || now.tip == user.tip {
			return err
		}
		return r.syncBranch(ctx, st, res, now)
	}
	if conflict != nil {
		if res.Conflict, err = r.explain(ctx, conflict, st.Branch, user.tip, res.goal); res.goal != res.tip && err == nil {
			res.Conflict.Ref = res.goal // the ref has more
		}
		return err
	}
	if res.Commits = ahead; ahead > 0 && user.tip != "" { // the commits have arrived, whatever is found in them
		res.GitDirs, res.unchecked = r.committedGitDirs(ctx, user.tip, res.goal)
	}
	return nil
}

// canFastForward returns how many commits the user's branch lacks, or why it cannot be
// fast-forwarded.
func (r *Repo) canFastForward(ctx context.Context, st *state, commit string, user snapshot) (ahead int, conflict *Conflict, err error) {
	branch, err := r.git.Branch(ctx)
	switch op := r.operation(); {
	case err != nil:
		return 0, nil, err
	case user.tip == "" && user.base != "":
		return 0, &Conflict{Kind: branchGone}, nil
	case user.elsewhere:
		return 0, &Conflict{Kind: checkedOutElsewhere}, nil
	case user.used != "":
		return 0, &Conflict{Kind: operationElsewhere, Detail: user.used}, nil
	case op != "" && (branch == st.Branch || branch == ""): // on no branch, it may be a rebase of this one
		return 0, &Conflict{Kind: operation, Detail: op}, nil
	}
	behind, ahead, err := r.count(ctx, user.tip, commit)
	switch {
	case err != nil:
		return 0, nil, err
	case user.tip == user.base && behind > 0:
		return 0, &Conflict{Kind: rewritten}, nil
	case user.tip == user.base:
		return ahead, nil, nil
	case ahead == 0:
		return 0, nil, nil
	case behind == 0:
		return 0, &Conflict{Kind: movedBack}, nil
	}
	conflict, err = r.prepareMerge(ctx, st.Branch, user.tip, commit)
	return 0, conflict, err
}

// count returns how many commits each of two has that the other lacks.
func (r *Repo) count(ctx context.Context, tip, commit string) (behind, ahead int, err error) {
	args := []string{"rev-list", "--count", "--left-right", tip + "..." + commit, "--"}
	if tip == "" { // on the first commit, all are on one side
		args = []string{"rev-list", "--count", commit, "--"}
	}
	out, err := r.git.Line(ctx, args...)
	if err == nil && tip == "" {
		_, err = fmt.Sscan(out, &ahead)
	} else if err == nil {
		_, err = fmt.Sscan(out, &behind, &ahead)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("counting the sandbox's commits: %w", err)
	}
	return behind, ahead, nil
}
