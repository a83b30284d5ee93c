package gitsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/index"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Undo is how the commits of a loop are taken back from the user's branch.
type Undo struct {
	Branch string
	// From is the last commit of the loop, where the branch is, and To the one before the first, where it goes.
	From, To string
	// Commits is how many there are.
	Commits int
	// Ref keeps them.
	Ref string
}

// PlanUndo finds the commits of a loop on the branch that is checked out. runs are the last commits of its runs, which
// come from the sandbox: they only select fast-forwards, which the reflog of the branch has.
func (r *Repo) PlanUndo(ctx context.Context, loop string, runs []string) (*Undo, error) {
	branch, err := r.git.Branch(ctx)
	if err != nil {
		return nil, err
	}
	op := r.operation()
	switch {
	case branch == "":
		return nil, hint.Wrap(errors.New("no branch is checked out"), "check out the branch of the loop")
	case op != "":
		return nil, hint.Wrap(fmt.Errorf("a %s is in progress in your working tree", op), "finish or abort it")
	}
	tip, err := r.git.Resolve(ctx, "refs/heads/"+branch)
	if err != nil {
		return nil, err
	}
	blocks, err := r.fastForwards(ctx, branch, tip, runs)
	if err != nil {
		return nil, err
	}
	if len(blocks) == 0 {
		return nil, hint.Wrap(fmt.Errorf("your branch %s has no commits of loop %s", branch, loop), "list loops with %q", "docker ralph ls --loops")
	}
	if last := blocks[0].to; len(blocks) > 1 || last != tip {
		return nil, hint.Wrap(fmt.Errorf("your branch %s has other commits after those of loop %s", branch, loop),
			"revert those of the loop with %s", revert(blocks))
	}
	u := &Undo{Branch: branch, From: tip, To: blocks[0].from}
	if u.To == "" {
		return nil, fmt.Errorf("no commit of your branch %s before loop %s is known", branch, loop)
	}
	if _, u.Commits, err = r.count(ctx, u.To, u.From); err != nil {
		return nil, err
	}
	u.Ref, err = r.undoneRef(ctx, loop, u.From)
	return u, err
}

// block are commits that follow each other on the user's branch; from is the one before them.
type block struct{ from, to string }

// revert returns the git commands that revert blocks, the newest first.
func revert(blocks []block) string {
	var commands []string
	for _, b := range blocks {
		what := fmt.Sprintf("%.10s..%.10s", b.from, b.to)
		if b.from == "" {
			what = fmt.Sprintf("%.10s", b.to)
		}
		commands = append(commands, "git revert "+what)
	}
	return `"` + strings.Join(commands, " && ") + `"`
}

// fastForwards returns the blocks of commits, the newest first, that the branch has got from sandboxes with one of the
// commits at the end.
func (r *Repo) fastForwards(ctx context.Context, branch, tip string, ends []string) (blocks []block, err error) {
	if tip == "" {
		return nil, nil
	}
	out, err := r.git.Output(ctx, nil, "log", "--walk-reflogs", "--format=%H %gs", "refs/heads/"+branch, "--")
	if err != nil {
		return nil, fmt.Errorf("reading the reflog of %s: %w", branch, err)
	}
	lines := slices.Collect(strings.Lines(string(out)))
	for i, line := range lines {
		to, subject, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(subject, fastForwarded) || !slices.Contains(ends, to) {
			continue
		}
		older := tip // than the blocks so far
		if n := len(blocks); n > 0 {
			older = blocks[n-1].from
		}
		if has, err := r.contains(ctx, older, to); err != nil {
			return nil, err
		} else if !has {
			continue // it was taken back or rewritten, or is in a block
		}
		from := ""
		if i+1 < len(lines) {
			from, _, _ = strings.Cut(lines[i+1], " ")
		}
		if n := len(blocks); n > 0 && older == to {
			blocks[n-1].from = from
		} else {
			blocks = append(blocks, block{from, to})
		}
	}
	return blocks, nil
}

// undoneRef returns a ref for the commits of a loop that are taken back. Those of a resumed loop can be taken back
// more than once.
func (r *Repo) undoneRef(ctx context.Context, loop, commit string) (string, error) {
	base := r.Prefix() + "/" + refname.Undone + loop
	for n := 1; ; n++ {
		ref := base
		if n > 1 {
			ref = fmt.Sprintf("%s-%d", base, n)
		}
		at, err := r.git.Resolve(ctx, ref)
		if err != nil || at == "" || at == commit {
			return ref, err
		}
	}
}

// Undo moves the branch back, with the index and the files, and keeps the commits at their ref. The user's uncommitted
// changes stay; nothing is changed if they are in the way. The sandbox gets the branch with the next push.
func (r *Repo) Undo(ctx context.Context, u *Undo) (err error) {
	known := Known(r.stateDir, r.name)
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if !known { // the sandbox was removed
		st.Branch = u.Branch
		defer func() { err = errors.Join(err, Forget(r.stateDir, r.name)) }()
	}
	if branch, err := r.git.Branch(ctx); err != nil {
		return err
	} else if branch != u.Branch || branch != st.Branch {
		return fmt.Errorf("the branch of sandbox %s is %s, and %s is checked out", r.name, termsafe.Name(st.Branch), termsafe.Name(branch))
	}
	conflict, err := r.moveBack(ctx, &st, u)
	if err != nil {
		return err
	}
	return asUndoError(conflict)
}

func (r *Repo) moveBack(ctx context.Context, st *state, u *Undo) (*Conflict, error) {
	changes, err := r.git.Changes(ctx, u.From, u.To)
	if err != nil {
		return nil, err
	}
	st.Pending = &pending{From: u.From, To: u.To, Token: index.NewToken(), Undo: true}
	if err := r.save(*st); err != nil {
		return nil, err
	}
	conflict, err := r.editIndex(ctx, st, changes, func() error {
		input := fmt.Sprintf("update %s %s\nupdate refs/heads/%s %s %s\n", u.Ref, u.From, u.Branch, u.To, u.From)
		_, err := r.git.Output(ctx, strings.NewReader(input), "update-ref", "-m", "ralph: undo to "+u.Ref, "--stdin")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("moving %s back: %w", u.Branch, err)
	}
	st.Pending = nil
	return conflict, r.save(*st)
}

// asUndoError says why nothing was taken back; nil without a conflict.
func asUndoError(c *Conflict) error {
	if c == nil {
		return nil
	}
	todo := "run the command again; if no git process is running, remove that file"
	switch {
	case c.Kind == fileInTheWay && (c.Repository || c.Ignored):
		todo = "move it away"
	case c.Kind == fileInTheWay:
		todo = "commit, stash or move it away"
	}
	return hint.Wrap(fmt.Errorf("%s: nothing was taken back", c.advice().why), "%s", todo)
}
