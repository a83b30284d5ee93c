package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/hint"
)

// What a directory without a scope lacks. Their texts are part of the
// command's interface.
var (
	ErrNotRepository = errors.New("not inside a git repository")
	ErrNoOrigin      = errors.New(`no git remote "origin" found`)
	ErrDetached      = errors.New("detached HEAD state. Checkout a branch first")
)

// Worktree is a git work tree and what the host's git says about it.
type Worktree struct {
	// Root is the absolute path of the work tree, symbolic links resolved.
	Root string
	// Prefix is the path of the caller's directory below Root, with slashes
	// and without one at the end; empty at the root itself.
	Prefix string
	// GitDir is the absolute path of the work tree's own git directory.
	GitDir string
	// CommonDir is the absolute path of the git directory that all work trees
	// of the repository share. It differs from GitDir in a linked work tree.
	CommonDir string
	// MainRoot is the root of the repository's main work tree: Root itself,
	// unless the work tree is a linked one. It is empty where it cannot be
	// known, as for a work tree of a bare repository; CommonDir identifies
	// the repository then.
	MainRoot string
	// Scope is the work tree's repository and branch.
	Scope Scope
	// UserName and UserEmail are git's effective user.name and user.email,
	// empty when unset.
	UserName, UserEmail string
}

// Linked says that the work tree was made by `git worktree add`.
func (w Worktree) Linked() bool { return w.GitDir != w.CommonDir }

// Detect finds the work tree that dir is in, and its scope. RALPH_SCOPE_REPO
// and RALPH_SCOPE_BRANCH, read through getenv, win over git's answers; origin,
// or the branch, is not needed then. A repository is needed in any case,
// because its work tree is what the sandbox works on.
//
// Only the directory counts: GIT_DIR and its relatives in the environment are
// ignored, because git inside the sandbox will not have them either, and both
// must mean the same repository.
//
// Two git processes run side by side; what they cannot tell is asked for in further
// ones. The answers are judged in the order repository, origin, branch.
func Detect(ctx context.Context, dir string, getenv func(string) string) (Worktree, error) {
	g, err := NewGit(dir)
	if err != nil {
		return Worktree{}, err
	}
	repo, branch := getenv("RALPH_SCOPE_REPO"), getenv("RALPH_SCOPE_BRANCH")

	var layout, configured, origin, head answer
	var group errgroup.Group
	ask := func(a *answer, args ...string) {
		group.Go(func() error { a.stdout, a.err = g.Run(ctx, args...); return nil })
	}
	ask(&layout, layoutArgs()...)
	ask(&configured, "config", "-z", "--get-regexp", `^(user\.(name|email)|core\.(bare|worktree)|remote\.origin\.url|url\..*\.insteadof)$`)
	_ = group.Wait() // each answer holds its own error
	s := readSettings(configured)
	origin.stdout, head.stdout = s.plainOrigin(), branchOf(layout)
	if repo == "" && origin.stdout == "" {
		ask(&origin, "remote", "get-url", "origin")
	}
	if branch == "" && head.stdout == "" {
		ask(&head, "branch", "--show-current")
	}
	_ = group.Wait()
	if err := ctx.Err(); err != nil {
		return Worktree{}, fmt.Errorf("looking for the git repository of %q: %w", dir, err)
	}

	w, err := readLayout(dir, layout, s)
	if err != nil {
		if errors.Is(err, ErrNotRepository) && getenv("GIT_DIR") != "" {
			err = fmt.Errorf("%w (GIT_DIR is set, but only the current directory counts)", err)
		}
		return Worktree{}, err
	}
	if w.Scope.Repo, err = repoSlug(repo, origin); err != nil {
		return Worktree{}, err
	}
	if w.Scope.Branch, err = branchName(branch, head); err != nil {
		return Worktree{}, err
	}
	return w, nil
}

// Origin asks git for the URL of the remote "origin"; empty if there is none. A
// password may be in it.
func (w Worktree) Origin(ctx context.Context) (string, error) {
	g, err := NewGit(w.Root)
	if err != nil {
		return "", err
	}
	out, err := g.Run(ctx, "remote", "get-url", "origin")
	if says(err, "no such remote") || says(err, "no urls configured") {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking git for the URL of origin: %w", err)
	}
	return strings.TrimRight(out, "\r\n"), nil
}

// SigningKey asks git for gpg.format and user.signingKey, a path with ~ resolved;
// each is empty if it is not set.
func (w Worktree) SigningKey(ctx context.Context) (format, key string, err error) {
	g, err := NewGit(w.Root)
	if err != nil {
		return "", "", err
	}
	var values [2]string
	for i, name := range []string{"gpg.format", "user.signingKey"} {
		out, err := g.Run(ctx, "config", "--type=path", "--get", name)
		if err != nil && !SaysNo(err) {
			return "", "", fmt.Errorf("asking git for %s: %w", name, err)
		}
		values[i] = strings.TrimRight(out, "\r\n")
	}
	return values[0], values[1], nil
}

// repoSlug takes the repository from the override, else from the answer to
// `git remote get-url origin`.
func repoSlug(override string, origin answer) (string, error) {
	if override != "" {
		return override, checkOverride("RALPH_SCOPE_REPO", override)
	}
	if origin.err != nil {
		if says(origin.err, "no such remote") || says(origin.err, "no urls configured") {
			return "", hint.Wrap(ErrNoOrigin, "add one with %q, or name the repository with RALPH_SCOPE_REPO=owner/repo", "git remote add origin URL")
		}
		return "", fmt.Errorf("asking git for the URL of origin: %w", origin.err)
	}
	slug, err := Slug(strings.TrimRight(origin.stdout, "\r\n"))
	if err != nil {
		return "", fmt.Errorf("reading the URL of the git remote \"origin\": %w; "+
			"correct it (git remote set-url origin URL) or set RALPH_SCOPE_REPO=owner/repo", err)
	}
	return slug, nil
}

// branchName takes the branch from the override, else from the answer to
// `git branch --show-current`, which is empty at a detached HEAD.
func branchName(override string, head answer) (string, error) {
	if override != "" {
		return override, checkOverride("RALPH_SCOPE_BRANCH", override)
	}
	if head.err != nil {
		return "", fmt.Errorf("asking git for the current branch: %w", head.err)
	}
	if branch := strings.TrimRight(head.stdout, "\r\n"); branch != "" {
		return branch, nil
	}
	return "", ErrDetached
}

// checkOverride refuses what neither a label nor a terminal could show.
func checkOverride(name, value string) error {
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("%s=%q: line breaks, control characters and invalid UTF-8 are not allowed", name, value)
	}
	return nil
}

// settings are the values of git's configuration that Detect needs.
type settings struct {
	userName, userEmail string
	bare                bool
	worktree            string
	origins             []string // URLs of the remote "origin"
	rewritten           bool     // some URLs stand for others
}

// plainOrigin is the URL of the remote "origin" where git would say just that;
// empty if it has to be asked.
func (s settings) plainOrigin() string {
	if s.rewritten || len(s.origins) != 1 {
		return ""
	}
	return s.origins[0]
}

// readSettings reads the output of `git config -z --get-regexp`. The last of
// several values is git's effective one. No match is an error to git, and
// nothing to us.
func readSettings(a answer) settings {
	var s settings
	for entry := range strings.SplitSeq(a.stdout, "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		switch key {
		case "user.name":
			s.userName = value
		case "user.email":
			s.userEmail = value
		case "core.bare":
			s.bare = strings.EqualFold(value, "true")
		case "core.worktree":
			s.worktree = value
		case "remote.origin.url":
			s.origins = append(s.origins, value)
		default:
			s.rewritten = s.rewritten || strings.HasPrefix(key, "url.")
		}
	}
	return s
}

// mainRoot finds the main work tree of a linked one. Git records it nowhere;
// it is where the shared git directory says, or else beside it, and it has to
// lead back there.
func mainRoot(commonDir string, s settings) string {
	root := filepath.Dir(commonDir)
	if s.worktree != "" {
		root = filepath.FromSlash(s.worktree)
		if !filepath.IsAbs(root) {
			root = filepath.Join(commonDir, root)
		}
	}
	if root = realPath(root); s.bare || !leadsTo(root, commonDir) {
		return ""
	}
	return root
}

// realPath resolves symbolic links, so that one directory has one path. A path
// that cannot be resolved is only cleaned.
func realPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return filepath.Clean(path)
}

// sameFile says whether both paths lead to one existing file or directory.
func sameFile(a, b string) bool {
	ai, err := os.Stat(a)
	if err != nil {
		return false
	}
	bi, err := os.Stat(b)
	return err == nil && os.SameFile(ai, bi)
}
