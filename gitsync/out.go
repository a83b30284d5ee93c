package gitsync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Result is what a sync has brought out of the sandbox.
type Result struct {
	// Branch is the user's branch, and Commits how many of the sandbox's it has
	// been moved forward by.
	Branch  string
	Commits int
	// Conflict says why the branch could not follow; nil if it did, or need not.
	Conflict *Conflict
	// Others are further refs of the sandbox that were fetched, by what they
	// are called there; the values are refs of the user's repository.
	Others map[string]string
	// Submodules are the paths of submodules in those of Others that have one.
	Submodules map[string]string
	// Refused are refs of the sandbox that could not be fetched, and why.
	Refused map[string]string
	// Users are files with uncommitted changes of the user's, which the sandbox does
	// not commit; Changed are those that have changed when the command ended.
	Users, Changed []string
	// Repositories are folders of the working tree that the command has made
	// repositories of their own of.
	Repositories []string
	// Kept are refs of the user's repository that lead to something else now, and
	// where what they led to is.
	Kept map[string]string

	unseen   error             // why it is unknown what the command has left
	fresh    map[string]bool   // those of Refused that were not reported before
	tip      string            // of the sandbox's branch
	head     string            // the ref that the sandbox has checked out; empty for none
	restored string            // what checking the branch out again took
	now      map[string]string // the sandbox's refs
}

// Notes tells the user, line by line, what has come.
func (res Result) Notes() []string {
	var notes []string
	switch {
	case res.Commits == 1:
		notes = append(notes, fmt.Sprintf("1 commit of the sandbox is on your branch %s", res.Branch))
	case res.Commits > 1:
		notes = append(notes, fmt.Sprintf("%d commits of the sandbox are on your branch %s", res.Commits, res.Branch))
	}
	if res.restored != "" {
		notes = append(notes, res.restored)
	}
	for _, name := range slices.Sorted(maps.Keys(res.Others)) {
		what := fmt.Sprintf("The sandbox's branch %q", strings.TrimPrefix(name, "refs/heads/"))
		switch {
		case name == "HEAD":
			what = "What the sandbox has on no branch"
		case name == "refs/stash":
			what = "What was stashed in the sandbox"
		case strings.HasPrefix(name, olderStash):
			what = "What was stashed in the sandbox before that"
		}
		note := what + " is at " + res.Others[name]
		if path := res.Submodules[name]; path != "" {
			note += fmt.Sprintf(": it adds or changes the submodule %q, so do not merge it or check it out", path)
		}
		notes = append(notes, note)
	}
	for _, ref := range slices.Sorted(maps.Keys(res.Refused)) {
		if !res.fresh[ref] {
			continue
		}
		notes = append(notes, fmt.Sprintf("Warning: %q of the sandbox was not fetched: %s", ref, res.Refused[ref]))
	}
	for _, ref := range slices.Sorted(maps.Keys(res.Kept)) {
		notes = append(notes, fmt.Sprintf("What was at %s is at %s now", ref, res.Kept[ref]))
	}
	if len(res.Changed) > 0 {
		notes = append(notes, fmt.Sprintf("Files with uncommitted changes of yours were changed, and are not committed: %s", some(res.Changed)))
	}
	if res.unseen != nil {
		notes = append(notes, fmt.Sprintf("Warning: %v", res.unseen))
	}
	if len(res.Repositories) > 0 {
		notes = append(notes, fmt.Sprintf("Warning: new git repositories in the working tree, whose configuration makes git run programs once they are added: %s", some(res.Repositories)),
			fmt.Sprintf("Hint: remove %q before \"git add\"", res.Repositories[0]+"/.git"))
	}
	return notes
}

// some names the first of some files.
func some(paths []string) string {
	const most = 5
	text := strings.Join(paths[:min(len(paths), most)], ", ")
	if more := len(paths) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Out brings the sandbox's new commits into the user's repository. Whether the
// user's branch follows is in the result. ended says that nothing in the sandbox
// commits any more, as far as the caller knows.
func (r *Repo) Out(ctx context.Context, sh Shell, ended bool) (Result, error) {
	own, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	res, err := own.out(ctx, &st, sh, nil)
	if err == nil {
		err = own.noteReported(&st)
	}
	if err == nil && ended && st.Dirty {
		res.Changed, res.Repositories, res.unseen = own.conclude(ctx)
		if ctx.Err() != nil {
			return res, ctx.Err()
		}
		st.Dirty, st.Head = false, res.head
		err = own.save(st)
	}
	return res, err
}

// Watch does what Out does while an agent works, but lets the user's branch
// follow only to a commit that was the sandbox's last one before already: agents
// amend what they have just committed. last is what the call before returned.
// With ended, the agent that worked has ended since, and all of it is final.
func (r *Repo) Watch(ctx context.Context, sh Shell, last string, ended bool) (res Result, tip string, err error) {
	own, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, last, err
	}
	defer unlock()
	res, err = own.out(ctx, &st, sh, func(tip string) bool { return ended || tip == last })
	return res, res.tip, err
}

// noteReported notes that the refs which were refused are in a result that is reported.
func (r *Repo) noteReported(st *state) error {
	noted := true
	for ref, bad := range st.Refused {
		noted = noted && bad.Reported
		bad.Reported = true
		st.Refused[ref] = bad
	}
	if noted {
		return nil
	}
	return r.save(*st)
}

// out syncs. settled, if it is there, says whether the user's branch may follow
// to a commit.
func (r *Repo) out(ctx context.Context, st *state, sh Shell, settled func(tip string) bool) (Result, error) {
	if st.Branch == "" {
		branch, err := r.git.branch(ctx)
		if err != nil {
			return Result{}, err
		}
		st.Branch = branch
	}
	l, err := r.receive(ctx, st, sh, settled == nil)
	if err != nil {
		return Result{}, err
	}
	if r.salvaging {
		if err := r.forward(ctx, l, st.Tips); err != nil {
			return Result{}, err
		}
	}
	at, err := r.look(ctx, st.Branch)
	if err != nil {
		return Result{}, err
	}
	before := maps.Clone(st.Tips)
	barred, err := r.barred(ctx, at.tip, l.moved(st.Tips))
	if err != nil {
		return Result{}, err
	}
	given, kept, err := r.file(ctx, st, l, at.filed, barred)
	if err != nil {
		return Result{}, err
	}
	mine := "refs/heads/" + st.Branch
	res := Result{Branch: st.Branch, Others: map[string]string{}, Submodules: map[string]string{}, Refused: map[string]string{}, fresh: map[string]bool{}, Kept: kept, tip: l.refs[mine], head: l.headRef, now: l.refs}
	for ref, name := range given {
		if ref != mine && before[ref] != l.refs[ref] {
			res.Others[ref] = r.Prefix() + "/" + name
			if path := barred[l.refs[ref]]; path != "" {
				res.Submodules[ref] = path
			}
		}
	}
	if bad, is := st.Refused[mine]; is {
		return res, &RefusedError{Sandbox: r.name, Why: bad.Why}
	}
	for ref, bad := range st.Refused {
		res.Refused[ref], res.fresh[ref] = bad.Why, !bad.Reported
	}
	if res.tip == "" || settled != nil && !settled(res.tip) {
		return res, nil
	}
	if err := r.follow(ctx, st, &res, at); err != nil {
		return res, err
	}
	if again := res.Conflict != nil && res.Conflict.Passes(); again != st.Again {
		st.Again = again
		return res, r.save(*st)
	}
	return res, nil
}

// RefusedError says that the commits of the user's branch could not be fetched,
// though the sandbox's git directory works.
type RefusedError struct{ Sandbox, Why string }

func (e *RefusedError) Error() string { return e.Why }

// follow moves the user's branch to where the sandbox's is, if that is simply
// forward and the branch has not moved since both were the same.
func (r *Repo) follow(ctx context.Context, st *state, res *Result, at where) error {
	switch res.tip {
	case at.tip:
		if at.base == at.tip && st.Synced == at.tip {
			return nil
		}
		if err := r.setBase(ctx, at.tip); err != nil {
			return err
		}
		st.agree(at.tip)
		return r.save(*st)
	case at.base:
		return nil // only the user has moved
	}
	if c, err := r.explain(ctx, nil, st.Branch, at.tip, res.tip); err != nil {
		return err
	} else if c != nil {
		res.Conflict = c
		return r.bar(ctx, st.Branch, res.tip, at)
	}
	ahead, conflict, err := r.judge(ctx, st, res.tip, at)
	if err == nil && conflict == nil && ahead > 0 {
		conflict, err = r.adopt(ctx, st, at.tip, res.tip)
	}
	if err != nil {
		// The user may have committed in the meantime.
		now, lookErr := r.look(ctx, st.Branch)
		if lookErr != nil || now.tip == at.tip {
			return err
		}
		return r.follow(ctx, st, res, now)
	}
	if conflict != nil {
		res.Conflict, err = r.explain(ctx, conflict, st.Branch, at.tip, res.tip)
		return err
	}
	res.Commits = ahead
	return nil
}

// judge returns how many commits the sandbox has that the user's branch has not,
// or what keeps the branch from following; neither if it has all of them.
func (r *Repo) judge(ctx context.Context, st *state, commit string, at where) (ahead int, conflict *Conflict, err error) {
	if !at.here {
		checkedOut, err := r.git.branch(ctx)
		switch {
		case err != nil:
			return 0, nil, err
		case checkedOut != st.Branch:
			return 0, &Conflict{Kind: switchedAway, Detail: checkedOut}, nil
		case at.tip == "" && at.base != "":
			return 0, &Conflict{Kind: branchGone}, nil
		}
	}
	if op := r.underWay(); op != "" {
		return 0, &Conflict{Kind: operation, Detail: op}, nil
	}
	behind, ahead, err := r.count(ctx, at.tip, commit)
	switch {
	case err != nil:
		return 0, nil, err
	case at.tip == at.base && behind > 0:
		return 0, &Conflict{Kind: rewritten}, nil
	case at.tip == at.base:
		return ahead, nil, nil
	case ahead == 0:
		return 0, nil, nil
	case behind == 0:
		return 0, &Conflict{Kind: movedBack}, nil
	}
	conflict, err = r.bothMoved(ctx, st.Branch, at.tip, commit)
	return 0, conflict, err
}

// count tells how many commits each of two has that the other has not.
func (r *Repo) count(ctx context.Context, tip, commit string) (behind, ahead int, err error) {
	args := []string{"rev-list", "--count", "--left-right", tip + "..." + commit, "--"}
	if tip == "" {
		args = []string{"rev-list", "--count", "--right-only", "--left-right", commit, "--"}
	}
	out, err := r.git.line(ctx, args...)
	if err == nil {
		_, err = fmt.Sscan(out, &behind, &ahead)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("counting the sandbox's commits: %w", err)
	}
	if tip == "" {
		behind, ahead = 0, behind+ahead
	}
	return behind, ahead, nil
}
