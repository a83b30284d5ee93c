package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

const refPrefix = "refs/heads/"

// Branch is the branch that a loop works on.
type Branch struct {
	// Private says that only agents use this git directory.
	Private bool

	top    string // of the worktree
	ref    string
	last   string        // its last known commit, or ""
	others func() string // returns the command of another session, or ""
	left   string        // the commit at which Restore has found the worktree on no branch or another one, or ""
}

// currentBranch returns the branch that is checked out in the worktree top, or nil.
func currentBranch(ctx context.Context, top string) *Branch {
	b := &Branch{top: top, others: OtherSession}
	ref, err := b.git(ctx, "", "symbolic-ref", "-q", "HEAD")
	if err != nil || !strings.HasPrefix(ref, refPrefix) {
		return nil
	}
	b.ref = ref
	b.last = b.commit(ctx, ref)
	return b
}

// LoopBranch returns the branch name if it exists, and the current branch otherwise.
func LoopBranch(ctx context.Context, top, name string) *Branch {
	if name != "" {
		if b := branchOf(ctx, top, name); b.last != "" {
			return b
		}
	}
	return currentBranch(ctx, top)
}

func branchOf(ctx context.Context, top, name string) *Branch {
	b := &Branch{top: top, ref: refPrefix + name, others: OtherSession}
	b.last = b.commit(ctx, b.ref)
	return b
}

// Name returns the branch's name without "refs/heads/".
func (b *Branch) Name() string { return strings.TrimPrefix(b.ref, refPrefix) }

// Restore switches the worktree back to the branch. Commits made elsewhere stay on
// a branch. Uncommitted changes are carried over; conflicting ones are stashed. The
// notes say what was done. After an error nothing is lost, but the worktree may still
// be on another branch.
func (b *Branch) Restore(ctx context.Context) (notes []string, err error) {
	if b.Private {
		if err := b.removeLeftovers(); err != nil {
			return nil, err
		}
	}
	ref, err := b.git(ctx, "", "symbolic-ref", "-q", "HEAD")
	if err != nil && !gitrepo.SaysNo(err) {
		return nil, fmt.Errorf("reading the current branch: %w", err)
	}
	if ref != b.ref {
		b.left = b.commit(ctx, "HEAD")
	}
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	tip := b.commit(ctx, b.ref)
	if tip == "" && b.last != "" {
		if _, err := b.git(ctx, "", "update-ref", b.ref, b.last, ""); err != nil {
			return nil, fmt.Errorf("recreating branch %s: %w", b.Name(), err)
		}
		tip = b.last
		notes = append(notes, fmt.Sprintf("recreated branch %s at %s", b.Name(), shortHash(tip)))
	}
	b.last = tip
	if ref == b.ref {
		return notes, nil
	}
	more, err := b.switchBack(ctx, ref)
	return append(notes, more...), err
}

// check reports a repository in which the next agent could not commit.
func (b *Branch) check(ctx context.Context) error {
	if _, err := b.git(ctx, "", "ls-files", "--", ".git"); err != nil {
		return fmt.Errorf("reading git's index: %w", err)
	}
	if !b.Private {
		return nil
	}
	if inside, err := b.git(ctx, "", "rev-parse", "--is-inside-work-tree", "--show-prefix"); err != nil || inside != "true\n" {
		return errors.Join(errors.New("git directory is not that of the working tree: see core.bare and core.worktree"), err)
	}
	return nil
}

// switchBack switches from ref, or from a detached HEAD if that is empty, to the branch.
func (b *Branch) switchBack(ctx context.Context, ref string) (notes []string, err error) {
	for _, operation := range []string{"rebase", "am"} {
		_, _ = b.git(ctx, "", operation, "--quit") // fails if none is in progress
	}
	where := strings.TrimPrefix(ref, refPrefix)
	if ref == "" {
		if where, err = b.saveDetached(ctx); err != nil {
			return nil, err
		}
	}
	note := fmt.Sprintf("switched the worktree back to branch %s", b.Name())
	if where != "" {
		note += "; commits remain on " + where
	}
	if b.last == "" { // no files to check out
		_, err := b.git(ctx, "", "symbolic-ref", "HEAD", b.ref)
		return []string{note}, err
	}
	if b.checkout(ctx) == nil {
		return []string{note}, nil
	}
	stashed, err := b.stashConflicts(ctx, b.ref)
	if err == nil {
		err = b.checkout(ctx)
	}
	if stashed {
		note += "; conflicting uncommitted changes were stashed (git stash list)"
	}
	if err != nil {
		return nil, fmt.Errorf("switching back to branch %s: %w", b.Name(), err)
	}
	return []string{note}, nil
}

func (b *Branch) checkout(ctx context.Context) error {
	_, err := b.git(ctx, "", "checkout", "-q", "--ignore-other-worktrees", b.Name(), "--")
	return err
}

// saveDetached saves the commits of a detached HEAD, and returns the name of their new branch.
func (b *Branch) saveDetached(ctx context.Context) (name string, err error) {
	head := b.commit(ctx, "HEAD")
	if head == "" {
		return "", nil
	}
	return b.save(ctx, head)
}

// save creates a branch for a commit, unless another ref contains it, and returns its name.
func (b *Branch) save(ctx context.Context, commit string) (name string, err error) {
	alone, err := b.git(ctx, "", "rev-list", "--max-count=1", commit, "--not", "--branches", "--remotes", "--tags")
	if err != nil || alone == "" {
		return "", err
	}
	name = "ralph-detached-" + shortHash(commit)
	_, err = b.git(ctx, "", "update-ref", refPrefix+name, commit)
	return name, err
}

// stashConflicts stashes only the uncommitted changes that conflict with a commit: others may be the user's.
func (b *Branch) stashConflicts(ctx context.Context, commit string) (stashed bool, err error) {
	// Unmerged entries cannot be stashed. The files are not changed.
	if _, err := b.git(ctx, "", "reset", "-q"); err != nil {
		return false, err
	}
	differs, err := b.git(ctx, "", "diff", "--name-only", "--no-renames", "-z", "HEAD", commit, "--")
	if err != nil {
		return false, err
	}
	status, err := b.git(ctx, "", "status", "--porcelain", "--no-renames", "-z", "--untracked-files=all")
	if err != nil {
		return false, err
	}
	other := map[string]bool{}
	for name := range strings.SplitSeq(differs, "\x00") {
		other[name] = true
	}
	var paths strings.Builder
	for entry := range strings.SplitSeq(status, "\x00") {
		if len(entry) > 3 && other[entry[3:]] {
			paths.WriteString(entry[3:] + "\x00")
		}
	}
	if paths.Len() == 0 {
		return false, nil
	}
	_, err = b.git(ctx, paths.String(), "--literal-pathspecs", "stash", "push", "-q", "--include-untracked",
		"-m", "ralph: conflicts with "+b.Name(), "--pathspec-from-file=-", "--pathspec-file-nul")
	return err == nil, err
}

// commit resolves a ref to a commit, or to "".
func (b *Branch) commit(ctx context.Context, ref string) string {
	id, err := b.git(ctx, "", "rev-parse", "--verify", "-q", ref+"^{commit}")
	if err != nil {
		return ""
	}
	return id
}

// gitTimeout bounds one git command: an agent can make it hang.
const gitTimeout = 5 * time.Minute

// git runs git in the worktree.
func (b *Branch) git(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	g := gitrepo.Git{Program: "git", Dir: b.top, Environ: gitrepo.Environ(os.Environ())}
	return gitrepo.AtPipe(ctx, b.top, func(ctx context.Context) (string, error) {
		var stdout strings.Builder
		err := g.Stream(ctx, strings.NewReader(stdin), &stdout, args...)
		return strings.TrimSuffix(stdout.String(), "\n"), err
	})
}

func shortHash(commit string) string { return commit[:min(len(commit), 7)] }

// runBranch switches the worktree in the current directory back to a branch and
// prints what was done.
func runBranch(ctx context.Context, out streams, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	notes, err := branchOf(ctx, "", args[0]).Restore(ctx)
	for _, note := range notes {
		_, _ = fmt.Fprintln(out.stdout, note)
	}
	return err
}
