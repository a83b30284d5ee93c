package gitsync

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Kind is a reason why the user's branch stays where it is.
type Kind int

// The reasons.
const (
	_ Kind = iota
	diverged
	movedBack
	rewritten
	switchedAway
	branchGone
	operation
	hasSubmodule
	filesElsewhere
	stagedClash
	indexLocked
	kinds // how many there are
)

// Conflict says that the sandbox has commits that the user's branch could not
// follow to. Nothing is lost: they are at Ref.
type Conflict struct {
	Kind   Kind
	Branch string
	Ref    string // where the sandbox's commits are
	Detail string // depends on the kind
	Merged string // a merge of both sides without conflicts; empty if there is none
}

// explain completes a conflict about a commit of the sandbox, which is nil if
// there is none so far. tip is where the user's branch is. One about commits with
// a submodule is always about that: no other advice holds for them.
func (r *Repo) explain(ctx context.Context, c *Conflict, branch, tip, commit string) (*Conflict, error) {
	path, err := r.submodule(ctx, tip, commit)
	if err != nil {
		return nil, err
	}
	if path != "" {
		c = &Conflict{Kind: hasSubmodule, Detail: path}
	}
	if c == nil {
		return nil, nil
	}
	c.Branch, c.Ref = branch, r.Prefix()+"/"+branch
	if c.Kind == hasSubmodule {
		c.Ref = r.Prefix() + "/" + submoduleRef + branch
	}
	if c.Merged != "" {
		c.Merged = r.Prefix() + "/" + mergedRef
	}
	return c, nil
}

// asError returns a conflict as the error of a sync.
func asError(c *Conflict, err error) error {
	if err != nil || c == nil {
		return err
	}
	return hint.Wrap(c, "%s", c.Hint())
}

// Passes says that the next sync may find nothing in the way any more, without
// the user having merged anything.
func (c *Conflict) Passes() bool { return c.Kind == indexLocked || c.Kind == operation }

// Mendable says that it can be mended in the sandbox only.
func (c *Conflict) Mendable() bool { return c.Kind == hasSubmodule }

// Error says what happened, and where both sides are.
func (c *Conflict) Error() string {
	return fmt.Sprintf("%s: your branch %s stays where it is, the sandbox's commits are at %s", c.advice().why, c.Branch, c.Ref)
}

// Hint says what to do.
func (c *Conflict) Hint() string { return c.advice().todo }

// advice is what is said about a conflict. The git commands in it are listed too:
// a test runs each of them on what a hostile agent has left.
type advice struct {
	why, todo string
	commands  [][]string
}

// git notes a command and returns it as the user is shown it.
func (a *advice) git(args ...string) string {
	a.commands = append(a.commands, args)
	return `"git ` + strings.Join(args, " ") + `"`
}

// advice is the only place that git commands are advised in for what comes out of
// a private git directory.
func (c *Conflict) advice() *advice {
	a := &advice{}
	switch c.Kind {
	case movedBack:
		a.why = "your branch was moved back to an earlier commit"
		a.todo = fmt.Sprintf("take them again with %s, or drop them with --recreate", a.git("reset", c.Ref))
	case rewritten:
		a.why = "the sandbox has rewritten commits that were on your branch"
		a.todo = fmt.Sprintf("compare both with %s; take the sandbox's version, with your files as they are, with %s, or drop it with --recreate",
			a.git("range-diff", "HEAD..."+c.Ref), a.git("reset", c.Ref))
	case switchedAway:
		on := c.Detail
		if on == "" {
			on = "no branch"
		}
		a.why = "your working tree is on " + on + " now"
		a.todo = fmt.Sprintf("take them with %s, then %s", a.git("switch", c.Branch), a.git("merge", c.Ref))
	case branchGone:
		a.why = "your branch was deleted or renamed"
		a.todo = "restore it with " + a.git("branch", c.Branch, c.Ref)
	case operation:
		a.why = fmt.Sprintf("a %s is in progress in your working tree", c.Detail)
		a.todo = "finish or abort it, and the next command takes them"
	case hasSubmodule:
		a.why = fmt.Sprintf("the sandbox's commits add or change the submodule %q, whose configuration can make git run programs", c.Detail)
		a.todo = fmt.Sprintf("do not merge them or check them out: look at them with %s; remove the submodule from all of them in \"docker ralph shell\", or drop them with --recreate",
			a.git("log", "-p", "--submodule=short", c.Ref))
	case filesElsewhere:
		a.why = "your files are as they were before these commits"
		a.todo = "take them with " + a.git("merge", c.Ref)
	case stagedClash:
		a.why = fmt.Sprintf("what you have staged (%q) is in their way", c.Detail)
		a.todo = fmt.Sprintf("commit or unstage it (%s), and the next command takes them", a.git("restore", "--staged", c.Detail))
	case indexLocked:
		a.why = fmt.Sprintf("another git process holds %q", c.Detail)
		a.todo = "the next command tries again; if no git process is running, remove that file"
	default:
		a.why = "your branch and the sandbox's have both moved"
		a.todo = fmt.Sprintf("merge them with %s, then %s; your files as they are now stay in the stash", a.git("stash", "--include-untracked"), a.git("merge", c.Ref))
		if c.Merged != "" {
			a = &advice{why: a.why}
			a.todo = fmt.Sprintf("take the merge of both that is ready, with your files as they are, with %s", a.git("reset", c.Merged))
		}
	}
	return a
}

// bothMoved prepares a merge for the user if there is one without conflicts.
// That git cannot do it is no error: the user merges then.
func (r *Repo) bothMoved(ctx context.Context, branch, tip, commit string) (*Conflict, error) {
	c := &Conflict{Kind: diverged}
	if _, err := r.git.line(ctx, "config", "--get-regexp", `^merge\..*\.driver$`); !gitrepo.SaysNo(err) {
		return c, nil //nolint:nilerr // programs of the user's would be run on what an agent wrote
	}
	tree, err := r.git.line(ctx, "merge-tree", "--write-tree", "--no-messages", tip, commit)
	if err != nil || !objectID().MatchString(tree) {
		return c, ctx.Err()
	}
	merge, err := r.git.with("GIT_AUTHOR_NAME=docker-ralph", "GIT_AUTHOR_EMAIL=docker-ralph@localhost", "GIT_COMMITTER_NAME=docker-ralph", "GIT_COMMITTER_EMAIL=docker-ralph@localhost").
		line(ctx, "commit-tree", "--no-gpg-sign", "-p", tip, "-p", commit, "-m", fmt.Sprintf("Merge the sandbox's commits into %s", branch), tree)
	if err != nil {
		return c, ctx.Err()
	}
	if err := r.updateRefs(ctx, fmt.Sprintf("update %s/%s %s\n", r.Prefix(), mergedRef, merge)); err != nil {
		return nil, err
	}
	c.Merged = merge
	return c, nil
}
