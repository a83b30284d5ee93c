package gitsync

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Kind is a reason why the user's branch is not fast-forwarded.
type Kind int

// The reasons.
const (
	_ Kind = iota
	diverged
	movedBack
	rewritten
	checkedOutElsewhere
	branchGone
	operation
	hasSubmodule
	unencoded
	indexLocked
	fileInTheWay
	operationElsewhere
	kinds // how many there are
)

// Conflict says that the user's branch was not fast-forwarded. The sandbox's commits are
// at Ref.
type Conflict struct {
	Kind   Kind
	Branch string
	Ref    string
	Detail string // depends on the kind
	Filter string // of the user, for content that it should have encoded
	Merged string // a ref of a merge of both sides; empty for none
	// Switched says that the branch is not checked out here.
	Switched bool
	// Ignored and Repository say what is in the way, which git does not stash.
	Ignored, Repository bool
}

// explain completes a conflict about a commit of the sandbox; nil if there is none. tip
// is where the user's branch is. What must not get on a branch of the user takes
// precedence: no other hint is safe then.
func (r *Repo) explain(ctx context.Context, c *Conflict, branch, tip, commit string) (*Conflict, error) {
	path, err := r.submodule(ctx, tip, commit)
	if err != nil {
		return nil, err
	}
	if path != "" {
		c = &Conflict{Kind: hasSubmodule, Detail: path}
	} else if raw, err := r.unencoded(ctx, tip, commit); err != nil {
		return nil, err
	} else if raw != nil {
		c = &Conflict{Kind: unencoded, Detail: raw.Path, Filter: raw.Filter}
	}
	if c == nil {
		return nil, nil
	}
	now, err := r.git.Branch(ctx)
	if err != nil {
		return nil, err
	}
	c.Branch, c.Ref, c.Switched = branch, r.Prefix()+"/"+branch, now != branch
	if c.Kind == hasSubmodule {
		c.Ref = r.Prefix() + "/" + refname.Submodule + branch
	}
	if c.Merged != "" {
		c.Merged = r.Prefix() + "/" + refname.Merged
	}
	return c, nil
}

// asError returns a conflict as an error with its hint.
func asError(c *Conflict, err error) error {
	if err != nil || c == nil {
		return err
	}
	return hint.Wrap(c, "%s", c.Hint())
}

// Transient reports whether the cause may be over at the next fetch.
func (c *Conflict) Transient() bool {
	return c.Kind == indexLocked || c.Kind == operation || c.Kind == operationElsewhere || c.Kind == fileInTheWay
}

// Diverged reports whether both sides have new commits, which only the user can merge.
func (c *Conflict) Diverged() bool { return c.Kind == diverged }

// FixedInSandbox reports whether the commits have to be changed in the sandbox.
func (c *Conflict) FixedInSandbox() bool { return c.Kind == hasSubmodule || c.Kind == unencoded }

// rejection tells a run why the user's repository does not take its commits; empty if it does.
func (c *Conflict) rejection() string {
	switch c.Kind {
	case hasSubmodule:
		return fmt.Sprintf("the commits add or change the submodule %q, which the user's repository does not take; none of them may, even if a later one removes it", c.Detail)
	case unencoded:
		return fmt.Sprintf("the commits change %q, which the user's git encodes with the filter %q, but the sandbox cannot; none of them may, even if a later one restores it", c.Detail, c.Filter)
	case rewritten:
		return fmt.Sprintf("the commits do not build on those that the user's branch %s has: do not amend, rebase or reset those", c.Branch)
	}
	return ""
}

// Error says what happened, and where both sides are.
func (c *Conflict) Error() string {
	return fmt.Sprintf("%s: your branch %s was not fast-forwarded, the sandbox's commits are at %s", c.advice().why, c.Branch, c.Ref)
}

// Hint says what to do.
func (c *Conflict) Hint() string { return c.advice().todo }

// advice is the text of a conflict, and the git commands in it, which a test runs on
// what a hostile agent has left.
type advice struct {
	why, todo string
	commands  [][]string
}

// git records a command and returns it quoted.
func (a *advice) git(args ...string) string {
	a.commands = append(a.commands, args)
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = termsafe.Word(arg)
	}
	return `"git ` + strings.Join(words, " ") + `"`
}

// reset is the hint to accept a commit of the sandbox as it is.
func (c *Conflict) reset(a *advice, ref string) string {
	return a.git("reset", "--keep", ref)
}

// advice is the only source of hints with git commands for commits of a sandbox.
func (c *Conflict) advice() *advice {
	a := c.adviceHere()
	if c.Switched && slices.Contains([]Kind{diverged, movedBack, rewritten}, c.Kind) {
		todo, commands := a.todo, a.commands
		a.commands = nil
		a.todo = fmt.Sprintf("change to it with %s, then %s", a.git("switch", c.Branch), todo)
		a.commands = append(a.commands, commands...)
	}
	return a
}

// adviceHere is advice for a branch that is checked out.
func (c *Conflict) adviceHere() *advice {
	a := &advice{}
	switch c.Kind {
	case movedBack:
		a.why = "your branch was moved back to an earlier commit"
		a.todo = fmt.Sprintf("restore them with %s, or leave them there and reopen their tasks with --recreate", c.reset(a, c.Ref))
	case rewritten:
		a.why = "the sandbox has rewritten commits of your branch"
		a.todo = fmt.Sprintf("compare both with %s; accept the sandbox's with %s, or leave them there and reopen their tasks with --recreate",
			a.git("range-diff", "HEAD..."+c.Ref), c.reset(a, c.Ref))
	case checkedOutElsewhere:
		a.why = "your branch is checked out in another worktree"
		a.todo = "merge them there, with " + a.git("merge", c.Ref)
	case branchGone:
		a.why = "your branch was deleted or renamed"
		a.todo = "restore it with " + a.git("branch", c.Branch, c.Ref)
	case operation:
		a.why = fmt.Sprintf("a %s is in progress in your working tree", c.Detail)
		a.todo = "finish or abort it; the next command fast-forwards the branch"
	case operationElsewhere:
		a.why = fmt.Sprintf("your branch is in use by a %s in another worktree", c.Detail)
		a.todo = "finish or abort it there; the next command fast-forwards the branch"
	case hasSubmodule:
		a.why = fmt.Sprintf("the sandbox's commits add or change the submodule %q, whose configuration can make git run programs", c.Detail)
		a.todo = fmt.Sprintf("do not merge them or check them out: view them with %s; remove the submodule from all of them in \"docker ralph shell\", or leave them there and reopen their tasks with --recreate",
			a.git("log", "-p", "--submodule=short", c.Ref))
	case unencoded:
		a.why = fmt.Sprintf("the sandbox's commits change %q, which your git encodes with the filter %q, but the sandbox cannot", c.Detail, c.Filter)
		a.todo = fmt.Sprintf("view them with %s; leave that file out of all of them in \"docker ralph shell\", or leave them there and reopen their tasks with --recreate",
			a.git("log", "--stat", c.Ref))
	case indexLocked:
		a.why = fmt.Sprintf("another git process holds %q", c.Detail)
		a.todo = "run any command again; if no git process is running, remove that file"
	case fileInTheWay:
		a.why = fmt.Sprintf("your %q would be overwritten", c.Detail)
		a.todo = fmt.Sprintf("move it away, or stash your changes with %s; the next command fast-forwards the branch", a.git("stash", "--include-untracked"))
		switch {
		case c.Repository:
			a = &advice{why: fmt.Sprintf("your repository %q is where the sandbox's commits have files", c.Detail), todo: "move it away; the next command fast-forwards the branch"}
		case c.Ignored:
			a = &advice{why: a.why, todo: "git ignores it: move it away; the next command fast-forwards the branch"}
		}
	default:
		a.why = "your branch and the sandbox's have diverged"
		a.todo = "merge them with " + a.git("merge", c.Ref)
		if c.Merged != "" {
			a = &advice{why: a.why}
			a.todo = "accept the prepared merge with " + c.reset(a, c.Merged)
		}
	}
	return a
}

// prepareMerge creates a merge of both sides if there are no conflicts. A failure of git
// is not an error: the user merges then.
func (r *Repo) prepareMerge(ctx context.Context, branch, tip, commit string) (*Conflict, error) {
	c := &Conflict{Kind: diverged}
	config, err := r.git.Config(ctx)
	if err != nil || config.Has("merge", "driver") { // a program that would run on an agent's files
		return c, err
	}
	tree, err := r.git.Line(ctx, "merge-tree", "--write-tree", "--no-messages", tip, commit)
	if err != nil || !hostgit.IsObjectID(tree) {
		return c, ctx.Err()
	}
	merge, err := r.git.With("GIT_AUTHOR_NAME=docker-ralph", "GIT_AUTHOR_EMAIL=docker-ralph@localhost", "GIT_COMMITTER_NAME=docker-ralph", "GIT_COMMITTER_EMAIL=docker-ralph@localhost").
		Line(ctx, "commit-tree", "--no-gpg-sign", "-p", tip, "-p", commit, "-m", fmt.Sprintf("Merge the sandbox's commits into %s", branch), tree)
	if err != nil {
		return c, ctx.Err()
	}
	if err := r.updateRefs(ctx, fmt.Sprintf("update %s/%s %s\n", r.Prefix(), refname.Merged, merge)); err != nil {
		return nil, err
	}
	c.Merged = merge
	return c, nil
}
