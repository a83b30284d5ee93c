package worktrees

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Status is what only a worktree has.
type Status struct {
	// Changed are files with uncommitted changes, and untracked files and directories.
	Changed []string
	// Against is the branch's upstream, or else the branch that it would be merged into;
	// empty for neither.
	Against       string
	Ahead, Behind int
}

var errNoGitDir = hint.Wrap(errors.New("no git directory"), "run %q", "git worktree repair")

// Status inspects a worktree of [Repository.List] whose directory exists.
func (r *Repository) Status(ctx context.Context, t Tree) (Status, error) {
	s := Status{}
	var err error
	if s.Changed, err = r.changed(ctx, t); err != nil {
		return s, fmt.Errorf("listing uncommitted changes in %s: %w", t.Path, err)
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

// changed lists uncommitted changes. git does not enter submodules, whose configuration could
// start programs.
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
		return nil, fmt.Errorf("git has not finished within %v", r.timeout)
	}
	if err != nil {
		return nil, err
	}
	return parseStatus(out), nil
}

// parseStatus reads git status --porcelain -z --no-renames.
func parseStatus(out string) []string {
	var changed []string
	for line := range strings.SplitSeq(out, "\x00") {
		if len(line) > 3 {
			changed = append(changed, line[3:])
		}
	}
	return changed
}

// against returns the ref of [Status.Against]; empty for none.
func (r *Repository) against(ctx context.Context, t Tree) (string, error) {
	if t.Branch == "" {
		return "", nil
	}
	own := "refs/heads/" + t.Branch
	out, err := r.git.Run(ctx, "for-each-ref", "--format=%(upstream)", own)
	if err != nil {
		return "", fmt.Errorf("reading the upstream of %s: %w", t.Branch, err)
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

// Commit is a commit with its short ID.
type Commit struct{ ID, Subject string }

// Unmerged returns the newest commits of a worktree, up to a limit, that neither its upstream
// nor a remote branch contains, and their number.
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

// Stray returns the refs below a prefix, except for some, whose commits are in no branch and
// no tag, and in no other ref that has one of the prefixes kept.
func (r *Repository) Stray(ctx context.Context, prefix string, kept []string, except ...string) ([]string, error) {
	out, err := r.git.Run(ctx, "for-each-ref", "--format=%(refname)", prefix+"/")
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", prefix, err)
	}
	without := []string{"--branches", "--remotes", "--tags"}
	for _, p := range kept {
		without = append(without, "--glob="+p)
	}
	var stray []string
next:
	for _, ref := range strings.Fields(out) {
		for _, name := range except {
			if ref == prefix+"/"+name {
				continue next
			}
		}
		_, n, err := r.only(ctx, []string{ref}, without, 0)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			stray = append(stray, ref)
		}
	}
	return stray, nil
}

// only returns the newest commits that some refs have and others lack, and their number.
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
		return nil, 0, fmt.Errorf("listing unmerged commits: %w", err)
	}
	return newest, n, nil
}
