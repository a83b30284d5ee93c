package gitsync

import (
	"context"
	"errors"
	"reflect"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Unmerged are commits of a sandbox that the user's branch does not have.
type Unmerged struct {
	// Branch is the user's branch.
	Branch string `json:"branch"`
	// Ref is where the user's repository has the commits, and Commit the last one; empty if
	// only the sandbox has them.
	Ref    string `json:"ref,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Why is the reason in one line, and Hints what to do.
	Why   string   `json:"why"`
	Hints []string `json:"hints,omitempty"`
}

// recordUnmerged records whether the user's branch has what a sync has found in the sandbox. A
// failure counts only if the sandbox may have commits; while an agent works, the last sync is yet
// to come.
func (r *Repo) recordUnmerged(st *state, res Result, failure error, last bool) error {
	_, refused := errors.AsType[*RefusedError](failure)
	_, held := errors.AsType[*HeldError](failure)
	own := "refs/heads/" + st.Branch
	caughtUp := last || res.Commits > 0 || res.refs[own] == st.Synced
	was := st.Unmerged
	switch c := res.Conflict; {
	case failure == nil && c != nil:
		st.Unmerged = &Unmerged{Branch: st.Branch, Ref: c.Ref, Commit: res.goal, Why: c.Error(), Hints: []string{c.Hint()}}
	case failure == nil && caughtUp:
		st.Unmerged = nil
	case refused, held, failure != nil && last && st.Dirty:
		st.Unmerged = &Unmerged{Branch: st.Branch, Why: failure.Error(), Hints: hint.Of(failure)}
	}
	if reflect.DeepEqual(was, st.Unmerged) {
		return nil
	}
	return r.save(*st)
}

// UnmergedCommits returns what the last sync with a sandbox has left out of the user's branch; nil
// for nothing.
func UnmergedCommits(stateDir, name string) *Unmerged {
	st, err := (&Repo{stateDir: stateDir, name: name}).readState()
	if err != nil {
		return nil
	}
	return st.Unmerged
}

// Includes reports whether a commit is one of those that the branch does not have.
func (u Unmerged) Includes(ctx context.Context, wt gitrepo.Worktree, commit string) (bool, error) {
	lacks, err := Lacks(ctx, wt, u.Branch, commit)
	if err != nil || !lacks || u.Commit == "" {
		return false, err
	}
	g, err := hostgit.New(wt)
	if err != nil {
		return false, err
	}
	has, err := g.Contains(ctx, u.Commit, commit)
	return err == nil && has, ctx.Err() // it is an error for an object that the repository does not have
}

// Lacks reports whether a branch of a repository does not have a commit. Its ID can be an agent's.
func Lacks(ctx context.Context, wt gitrepo.Worktree, branch, commit string) (bool, error) {
	g, err := hostgit.New(wt)
	if err != nil || !hostgit.IsObjectID(commit) {
		return false, err
	}
	has, err := g.Contains(ctx, "refs/heads/"+branch, commit)
	return err != nil || !has, ctx.Err() // it is an error for an object that the repository does not have
}
