package worktrees

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// Status is what is in a work tree that is nowhere else.
type Status struct {
	// Changed are the files with changes that are not committed, new ones among
	// them, as git names them. A new folder counts as one.
	Changed []string
	// Against is what the branch is compared with: its upstream or, without one,
	// the branch that it would be merged into. It is empty if there is neither.
	Against       string
	Ahead, Behind int
}

// errNoGitDir is about a work tree whose git directory nobody knows.
var errNoGitDir = errors.New("git has no directory for it: repair it with \"git worktree repair\"")

// Status looks at a work tree whose folder is there. It has to be one that
// [Repository.List] has returned.
func (r *Repository) Status(ctx context.Context, t Tree) (Status, error) {
	s := Status{}
	var err error
	if s.Changed, err = r.changed(ctx, t); err != nil {
		return s, fmt.Errorf("looking for uncommitted changes in %s: %w", t.Path, err)
	}
	against, err := r.against(ctx, t)
	if err != nil || against == "" {
		return s, err
	}
	out, err := r.git.Run(ctx, "rev-list", "--left-right", "--count", "refs/heads/"+t.Branch+"..."+against, "--")
	if err == nil {
		_, err = fmt.Sscan(out, &s.Ahead, &s.Behind)
	}
	if err != nil {
		return s, fmt.Errorf("comparing %s with %s: %w", t.Branch, against, err)
	}
	s.Against = strings.TrimPrefix(strings.TrimPrefix(against, "refs/heads/"), "refs/remotes/")
	return s, nil
}

// changed lists what is not committed. Submodules are not looked into: their
// configuration could have git start programs.
func (r *Repository) changed(ctx context.Context, t Tree) ([]string, error) {
	if t.gitDir == "" {
		return nil, errNoGitDir
	}
	program, err := gitrepo.NewGit(t.Path)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	out, err := gitrepo.AtPipe(limited, t.Path, func(ctx context.Context) (string, error) {
		return program.Run(ctx, "--git-dir="+t.gitDir, "--work-tree="+t.Path,
			"status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=dirty", "--no-renames")
	})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("git has not answered within %v", r.timeout)
	}
	if err != nil {
		return nil, err
	}
	return parseStatus(out), nil
}

// parseStatus reads what "git status --porcelain -z --no-renames" prints.
func parseStatus(out string) []string {
	var changed []string
	for line := range strings.SplitSeq(out, "\x00") {
		if len(line) > 3 {
			changed = append(changed, line[3:])
		}
	}
	return changed
}

// against returns the ref that a work tree's branch is compared with; empty if
// there is none.
func (r *Repository) against(ctx context.Context, t Tree) (string, error) {
	if t.Branch == "" {
		return "", nil
	}
	own := "refs/heads/" + t.Branch
	out, err := r.git.Run(ctx, "for-each-ref", "--format=%(upstream)", own)
	if err != nil {
		return "", fmt.Errorf("asking git for the upstream of %s: %w", t.Branch, err)
	}
	candidates := []string{strings.TrimSpace(strings.SplitN(out, "\n", 2)[0])}
	if r.mainBranch != "" {
		candidates = append(candidates, "refs/heads/"+r.mainBranch)
	}
	for _, ref := range append(candidates, "refs/remotes/origin/HEAD") {
		if ref == "" || ref == own {
			continue
		}
		if there, err := r.exists(ctx, ref); err != nil || there {
			return ref, err
		}
	}
	return "", nil
}

// Commit is one, by its short name and its subject.
type Commit struct{ ID, Subject string }

// Unmerged returns the commits of a work tree that would be hard to find without
// it and its branch: neither what its branch is compared with has them nor
// anything that is known of a remote. The newest comes first; no more than limit
// are returned. n is how many there are.
func (r *Repository) Unmerged(ctx context.Context, t Tree, limit int) (newest []Commit, n int, err error) {
	if t.Branch == "" {
		return r.only(ctx, []string{t.head}, []string{"--branches", "--remotes", "--tags"}, limit)
	}
	own := "refs/heads/" + t.Branch
	if there, err := r.exists(ctx, own); err != nil || !there {
		return nil, 0, err // a branch without a commit
	}
	against, err := r.against(ctx, t)
	if err != nil {
		return nil, 0, err
	}
	without := []string{"--exclude=" + own, "--branches", "--remotes"}
	if against != "" {
		without = []string{against, "--remotes"}
	}
	return r.only(ctx, []string{own}, without, limit)
}

// Stray returns the refs below a prefix whose commits no branch has, and nothing
// that is known of a remote, without those of the names given.
func (r *Repository) Stray(ctx context.Context, prefix string, except ...string) ([]string, error) {
	out, err := r.git.Run(ctx, "for-each-ref", "--format=%(refname)", prefix+"/")
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", prefix, err)
	}
	var stray []string
next:
	for _, ref := range strings.Fields(out) {
		for _, name := range except {
			if ref == prefix+"/"+name {
				continue next
			}
		}
		_, n, err := r.only(ctx, []string{ref}, []string{"--branches", "--remotes", "--tags"}, 0)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			stray = append(stray, ref)
		}
	}
	return stray, nil
}

// only counts and names the commits that some refs have and others have not.
func (r *Repository) only(ctx context.Context, refs, without []string, limit int) (newest []Commit, n int, err error) {
	set := append(append(refs, "--not"), without...)
	out, err := r.git.Run(ctx, append([]string{"rev-list", "--count"}, append(set, "--")...)...)
	if err == nil {
		_, err = fmt.Sscan(out, &n)
	}
	if err == nil && n > 0 && limit > 0 {
		args := append([]string{"log", "--no-show-signature", "--no-color", "--format=%h %s", fmt.Sprintf("--max-count=%d", limit)}, set...)
		out, err = r.git.Run(ctx, append(args, "--")...)
		for line := range strings.Lines(out) {
			id, subject, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
			newest = append(newest, Commit{id, subject})
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("looking for commits that are not merged: %w", err)
	}
	return newest, n, nil
}
