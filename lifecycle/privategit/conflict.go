package privategit

import (
	"context"
	"fmt"
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

// explain completes a conflict.
func (r *Repo) explain(c *Conflict, branch string) *Conflict {
	c.Branch, c.Ref = branch, r.Prefix()+"/"+branch
	if c.Merged != "" {
		c.Merged = r.Prefix() + "/" + mergedRef
	}
	return c
}

// Passes says that the next sync may find nothing in the way any more, without
// the user having merged anything.
func (c *Conflict) Passes() bool { return c.Kind == indexLocked || c.Kind == operation }

// Error tells what happened, where both sides are, and what to do.
func (c *Conflict) Error() string {
	kept := fmt.Sprintf("Your branch %s was left as it is; the sandbox's commits are at %s. ", c.Branch, c.Ref)
	var why, todo string
	switch c.Kind {
	case movedBack:
		why = "your branch was moved back to an earlier commit"
		todo = fmt.Sprintf("To have them on your branch again: git reset %s. To drop them: run with --recreate", c.Ref)
	case rewritten:
		why = "the sandbox has rewritten commits that were on your branch"
		todo = fmt.Sprintf("Compare both with \"git range-diff HEAD...%s\". To take its version, with your files as they are: git reset %s. To drop it: run with --recreate", c.Ref, c.Ref)
	case switchedAway:
		why = fmt.Sprintf("your work tree is on %s now", orDetached(c.Detail))
		todo = fmt.Sprintf("To take them: git switch %s, then git merge %s", c.Branch, c.Ref)
	case branchGone:
		why = "your branch was deleted or renamed"
		todo = fmt.Sprintf("To have it again: git branch %s %s", c.Branch, c.Ref)
	case operation:
		why = fmt.Sprintf("a %s is under way in your work tree", c.Detail)
		todo = "Finish or abort it: the next command takes them over"
	case hasSubmodule:
		why = fmt.Sprintf("they add or change the submodule %q, whose configuration git would run programs from", c.Detail)
		todo = fmt.Sprintf("Look at them with \"git log -p %s\" before you merge", c.Ref)
	case filesElsewhere:
		why = "your files are as they were before these commits"
		todo = "To take them: git merge " + c.Ref
	case stagedClash:
		why = fmt.Sprintf("what you have staged (%q) cannot be beside them", c.Detail)
		todo = "Commit it or take it out of the index (git restore --staged), and the next command takes them over"
	case indexLocked:
		why = fmt.Sprintf("another git holds %q", c.Detail)
		todo = "The next command tries again; if no git runs, one has died: remove that file"
	default:
		why, todo = "your branch and the sandbox's have both moved", c.merging()
	}
	return why + ". " + kept + todo
}

func (c *Conflict) merging() string {
	if c.Merged != "" {
		return fmt.Sprintf("A merge of both without conflicts is ready. To take it, with your files as they are: git reset %s", c.Merged)
	}
	return fmt.Sprintf("To bring them together: git stash --include-untracked, then git merge %s; your files as they are now stay in the stash", c.Ref)
}

func orDetached(branch string) string {
	if branch == "" {
		return "no branch"
	}
	return branch
}

// bothMoved prepares a merge for the user if there is one without conflicts.
// That git cannot do it is no error: the user merges then.
func (r *Repo) bothMoved(ctx context.Context, branch, tip, commit string) (*Conflict, error) {
	c := &Conflict{Kind: diverged}
	if _, err := r.git.line(ctx, "config", "--get-regexp", `^merge\..*\.driver$`); !saidNo(err) {
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
