package privategit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

	tip string            // of the sandbox's branch
	now map[string]string // the sandbox's refs
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
	for _, name := range slices.Sorted(maps.Keys(res.Others)) {
		what := fmt.Sprintf("The sandbox's branch %q", strings.TrimPrefix(name, "refs/heads/"))
		switch name {
		case "HEAD":
			what = "What the sandbox has on no branch"
		case "refs/stash":
			what = "What was stashed in the sandbox"
		}
		notes = append(notes, what+" is at "+res.Others[name])
	}
	return notes
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
	res, err := own.out(ctx, &st, sh)
	if err == nil && ended && st.Dirty {
		st.Dirty = false
		err = own.save(st)
	}
	return res, err
}

func (r *Repo) out(ctx context.Context, st *state, sh Shell) (Result, error) {
	if st.Branch == "" {
		branch, err := r.git.branch(ctx)
		if err != nil {
			return Result{}, err
		}
		st.Branch = branch
	}
	l, err := r.receive(ctx, st, sh)
	if err != nil {
		return Result{}, err
	}
	before := maps.Clone(st.Tips)
	given, err := r.file(ctx, st, l)
	if err != nil {
		return Result{}, err
	}
	mine := "refs/heads/" + st.Branch
	res := Result{Branch: st.Branch, Others: map[string]string{}, tip: l.refs[mine], now: l.refs}
	for ref, name := range given {
		if ref != mine && before[ref] != l.refs[ref] {
			res.Others[ref] = r.Prefix() + "/" + name
		}
	}
	if res.tip == "" {
		return res, nil
	}
	return res, r.follow(ctx, st, &res)
}

// follow moves the user's branch to where the sandbox's is, if that is simply
// forward and the branch has not moved since both were the same.
func (r *Repo) follow(ctx context.Context, st *state, res *Result) error {
	tip, err := r.git.resolve(ctx, "refs/heads/"+st.Branch)
	if err != nil {
		return err
	}
	base, err := r.git.resolve(ctx, r.base())
	if err != nil {
		return err
	}
	switch {
	case res.tip == tip:
		if base != tip {
			err = r.setBase(ctx, tip)
		}
		if err == nil && st.Synced != tip {
			st.agree(tip)
			err = r.save(*st)
		}
		return err
	case res.tip == base:
		return nil // only the user has moved
	}
	conflict, err := r.judge(ctx, st, res.tip, tip, base)
	if err == nil && conflict == nil && tip != base {
		return nil // the user's branch has all of it, and more
	}
	if err == nil && conflict == nil {
		conflict, err = r.adopt(ctx, st, tip, res.tip)
	}
	if err != nil {
		return err
	}
	if conflict != nil {
		res.Conflict = r.explain(conflict, st.Branch)
		return nil
	}
	res.Commits, err = r.count(ctx, tip, res.tip)
	return err
}

// judge says what keeps the user's branch, which is at tip, from following to
// the sandbox's commit.
func (r *Repo) judge(ctx context.Context, st *state, commit, tip, base string) (*Conflict, error) {
	checkedOut, err := r.git.branch(ctx)
	switch {
	case err != nil:
		return nil, err
	case checkedOut != st.Branch:
		return &Conflict{Kind: switchedAway, Detail: checkedOut}, nil
	case tip == "" && base != "":
		return &Conflict{Kind: branchGone}, nil
	}
	if op := r.underWay(); op != "" {
		return &Conflict{Kind: operation, Detail: op}, nil
	}
	if tip != base {
		if has, err := r.git.contains(ctx, tip, commit); has || err != nil {
			return nil, err
		}
		if forward, err := r.git.contains(ctx, commit, tip); forward || err != nil {
			return &Conflict{Kind: movedBack}, err
		}
		return r.bothMoved(ctx, st.Branch, tip, commit)
	}
	if forward, err := r.git.contains(ctx, commit, tip); forward || err != nil {
		return nil, err
	}
	return &Conflict{Kind: rewritten}, nil
}

func (r *Repo) count(ctx context.Context, from, to string) (int, error) {
	args := []string{"rev-list", "--count", to}
	if from != "" {
		args = append(args, "^"+from)
	}
	out, err := r.git.line(ctx, args...)
	if err != nil {
		return 0, fmt.Errorf("counting the sandbox's commits: %w", err)
	}
	return strconv.Atoi(out)
}
