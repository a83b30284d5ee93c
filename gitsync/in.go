package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// inScript takes over where the user's repository is. Its arguments are the
// user's branch, and the commits that the sandbox's index and the branch are at;
// its input are other refs that have changed.
const inScript = plainGit + `set -e
git update-ref --stdin || :
[ -z "$3" ] || git update-ref -m 'ralph: from your branch' "refs/heads/$1" "$3" "$4"
git symbolic-ref HEAD "refs/heads/$1"
if [ -z "$3" ]; then git read-tree --empty
elif [ -z "$2" ]; then git read-tree --reset "$3"
else git read-tree -m -i "$2" "$3" 2>/dev/null || git read-tree --reset "$3" 2>/dev/null || {
	rm -f "$(git rev-parse --git-path index)" # a filter of the agent's fails
	git read-tree "$3"
}
fi
git update-index -q --refresh || :
`

// restoreScript checks a branch out again, its argument, that the sandbox has left:
// a loop that was killed did not come to it. What it prints is for the user.
const restoreScript = `PATH=/opt/ralph/bin:$PATH ralph _branch "$1"`

// leaveScript keeps the sandbox's git from committing files that only the
// user's filters can turn into what belongs there. Its input are their names.
const leaveScript = plainGit + `git update-index --skip-worktree -z --stdin`

// In brings the sandbox up to where the user's repository is: commits, another
// branch. Before that everything comes out that has not yet. A *Conflict as the
// error says that both sides have moved and nothing was changed in the sandbox.
func (r *Repo) In(ctx context.Context, sh Shell) (Result, error) {
	own, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	if err := own.checkHidden(ctx, st); err != nil {
		return Result{}, err
	}
	own.quiet = true
	unset := st.Branch == "" // it was filled at a detached HEAD
	res, err := own.out(ctx, &st, sh, nil)
	if err == nil {
		err = own.noteReported(&st)
	}
	if err != nil {
		return res, err
	}
	branch, err := own.git.branch(ctx)
	if err != nil {
		return res, err
	}
	switched := branch != st.Branch
	if c := res.Conflict; c != nil && (!switched || c.Kind != switchedAway && c.Kind != hasSubmodule) {
		conflict := res.Conflict
		res.Conflict = nil // told once
		return res, asError(conflict, nil)
	}
	if !unset && res.head != "refs/heads/"+st.Branch && res.now["refs/heads/"+st.Branch] != "" {
		var said strings.Builder
		if err := sh(ctx, restoreScript, []string{st.Branch}, nil, &said); err != nil {
			return res, fmt.Errorf("checking out %s in the sandbox %s: %w", st.Branch, r.name, err)
		}
		res.restored = strings.TrimSpace(said.String())
	}
	if err := own.in(ctx, &st, sh, branch, unset, res); err != nil {
		return res, err
	}
	res.Users, err = own.protect(ctx, &st, sh, st.Dirty)
	return res, err
}

// InUnchanged is In without asking the sandbox first, if that has not changed since
// the last sync as far as is known. done is false if it may have, or is not found to
// be as expected: then nothing was done.
func (r *Repo) InUnchanged(ctx context.Context, sh Shell) (res Result, done bool, err error) {
	own, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, false, err
	}
	defer unlock()
	if !st.unchanged() {
		return Result{}, false, nil
	}
	if err := own.checkHidden(ctx, st); err != nil {
		return Result{}, false, err
	}
	branch, err := own.git.branch(ctx)
	if err != nil {
		return Result{}, false, err
	}
	res = Result{Branch: st.Branch, tip: st.Synced, head: st.Head, now: st.Tips}
	if err := own.in(ctx, &st, sh, branch, false, res); err != nil {
		if _, is := errors.AsType[*ScriptError](err); is {
			err = nil
		}
		return Result{}, false, err
	}
	res.Users, err = own.protect(ctx, &st, sh, false)
	return res, true, err
}

// unchanged reports whether the sandbox had nothing to fetch and its branch checked out
// when the last command in it ended.
func (st *state) unchanged() bool {
	mine := "refs/heads/" + st.Branch
	return st.Head == mine && st.Tips[mine] == st.Synced && !st.Dirty && !st.Held && !st.Again && st.Pending == nil && len(st.Refused) == 0
}

func (r *Repo) in(ctx context.Context, st *state, sh Shell, branch string, unset bool, res Result) error {
	refs, err := r.git.refs(ctx)
	if err != nil {
		return err
	}
	mine := "refs/heads/" + branch
	tip, theirs := refs[mine], res.now[mine]
	same := branch == st.Branch
	switch {
	case !unset && same && tip == theirs && maps.Equal(refs, st.Given):
		return nil
	case tip == "" && theirs != "":
		return asError(r.explain(ctx, &Conflict{Kind: branchGone}, branch, tip, theirs))
	case !same && theirs != "" && theirs != st.Given[mine]:
		// The sandbox has moved a branch that the user has now switched to.
		if has, err := r.git.contains(ctx, tip, theirs); err != nil || !has {
			return errors.Join(err, asError(r.explain(ctx, &Conflict{Kind: diverged}, branch, tip, theirs)))
		}
	}
	tips, commands := st.takeOver(refs, res.now, mine)
	old := theirs
	if old == "" {
		old = strings.Repeat("0", len(tip))
	}
	at := res.tip // of the sandbox's index
	if unset {
		at = ""
	}
	if err := sh(ctx, inScript, []string{branch, at, tip, old}, strings.NewReader(commands), io.Discard); err != nil {
		return fmt.Errorf("bringing the sandbox %s up to date with your repository: %w", r.name, err)
	}
	if err := r.leaveFiltered(ctx, sh); err != nil {
		return err
	}
	if err := r.setBase(ctx, tip); err != nil {
		return err
	}
	*st = state{Branch: branch, Head: mine, Synced: tip, Tips: tips, Given: refs, Hidden: st.Hidden, Dirty: st.Dirty, Refused: st.Refused, Again: st.Again, Guarded: st.Guarded, Marked: st.Marked}
	return r.save(*st)
}

// takeOver returns commands for those of the user's refs that have changed since
// the sandbox got them, except for branches that the sandbox has moved itself,
// and the refs that the sandbox has then. The branch of the user is not in the
// commands.
func (st *state) takeOver(now, theirs map[string]string, mine string) (tips map[string]string, commands string) {
	var b strings.Builder
	tips = maps.Clone(st.Tips)
	untouched := func(ref string) bool {
		return !strings.HasPrefix(ref, "refs/heads/") || theirs[ref] == st.Given[ref]
	}
	for _, ref := range slices.Sorted(maps.Keys(st.Given)) {
		if now[ref] == "" && ref != mine && untouched(ref) {
			_, _ = fmt.Fprintf(&b, "delete %s\n", ref)
			delete(tips, ref)
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(now)) {
		if now[ref] != st.Given[ref] && ref != mine && untouched(ref) {
			_, _ = fmt.Fprintf(&b, "update %s %s\n", ref, now[ref])
			tips[ref] = now[ref]
		}
	}
	tips[mine] = now[mine]
	return tips, b.String()
}

// leaveFiltered marks the files of the user's filters in the sandbox's index.
func (r *Repo) leaveFiltered(ctx context.Context, sh Shell) error {
	all, err := r.readConfig(ctx)
	if err != nil {
		return err
	}
	paths, err := filteredPaths(ctx, r.git, all)
	if err != nil || len(paths) == 0 {
		return err
	}
	if err := sh(ctx, leaveScript, nil, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), io.Discard); err != nil {
		return fmt.Errorf("bringing the sandbox %s up to date with your repository: %w", r.name, err)
	}
	return nil
}
