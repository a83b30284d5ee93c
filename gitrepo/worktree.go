package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// Errors for a directory without a scope. Their texts are part of the interface.
var (
	ErrNotRepository = hint.Wrap(errors.New("not inside a git repository"), "change to a repository, or create one with %q", "git init")
	ErrNoOrigin      = errors.New(`no git remote "origin" found`)
	ErrDetached      = hint.Wrap(errors.New("detached HEAD state. Checkout a branch first"), "run %q, or pass --worktree=NAME to work in a worktree with a branch of its own", "git switch BRANCH")
)

// Worktree is a git worktree.
type Worktree struct {
	// Root is the absolute path of the worktree, without symbolic links.
	Root string
	// Prefix is the path of the caller's directory below Root, with slashes; empty at the
	// root.
	Prefix string
	// GitDir is the absolute path of the worktree's git directory.
	GitDir string
	// CommonDir is the absolute path of the git directory that all worktrees share. It
	// differs from GitDir in a linked worktree.
	CommonDir string
	// MainRoot is the root of the main worktree; empty if unknown, as for a worktree of a
	// bare repository.
	MainRoot string
	Scope    Scope
	// Config is git's configuration when the worktree was detected.
	Config Config
}

// Linked reports whether the worktree was created by git worktree add.
func (w Worktree) Linked() bool { return w.GitDir != w.CommonDir }

// LinkedWorktrees returns the linked worktrees of a repository, as they are recorded
// (gitrepository-layout(5), worktrees/<id>/gitdir), by their git directories.
func LinkedWorktrees(commonDir string) (map[string]string, error) {
	paths := map[string]string{}
	folder := filepath.Join(commonDir, "worktrees")
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(folder, e.Name())
		if content, err := budget.ReadFile(filepath.Join(dir, "gitdir"), maxPointer); err == nil { // or else it is being added or removed
			paths[dir] = filepath.Dir(resolve(dir, string(content)))
		}
	}
	return paths, nil
}

// Detect finds the worktree of a directory, and its scope. RALPH_SCOPE_REPO and
// RALPH_SCOPE_BRANCH override origin and the branch; a repository is needed in any case.
//
// GIT_DIR and the like are ignored, because git in the sandbox does not have them.
//
// Errors about the repository come before those about origin and the branch.
func Detect(ctx context.Context, dir string, getenv func(string) string) (Worktree, error) {
	g, err := NewGit(dir)
	if err != nil {
		return Worktree{}, err
	}
	var layout, configured answer
	var group sync.WaitGroup
	group.Go(func() { layout.stdout, layout.err = g.Run(ctx, layoutArgs()...) })
	group.Go(func() { configured.stdout, configured.err = g.Run(ctx, configArgs()...) })
	group.Wait()
	w, err := readLayout(dir, layout, parseConfig(configured.stdout))
	if err == nil && configured.err != nil {
		err = fmt.Errorf("reading git's configuration: %w", configured.err)
	}
	if errors.Is(err, ErrNotRepository) && getenv("GIT_DIR") != "" {
		err = fmt.Errorf("%w (GIT_DIR is ignored)", err)
	}
	if err == nil {
		w.Scope.Repo, err = w.repoSlug(ctx, getenv("RALPH_SCOPE_REPO"))
	}
	if err == nil {
		w.Scope.Branch, err = w.branchName(ctx, getenv("RALPH_SCOPE_BRANCH"), branchOf(layout))
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("detecting the git repository of %q: %w", dir, ctx.Err())
	}
	if err != nil {
		return Worktree{}, err
	}
	return w, nil
}

// Origin returns the URL of the remote "origin", which may contain a password; empty for
// none.
func (w Worktree) Origin(ctx context.Context) (string, error) {
	if url := w.Config.plainOrigin(); url != "" {
		return url, nil
	}
	out, err := w.ask(ctx, "remote", "get-url", "origin")
	if says(err, "no such remote") || says(err, "no urls configured") {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the URL of origin: %w", err)
	}
	return out, nil
}

// ask returns the output of git without the final newline.
func (w Worktree) ask(ctx context.Context, args ...string) (string, error) {
	g, err := NewGit(w.Root)
	if err != nil {
		return "", err
	}
	out, err := g.Run(ctx, args...)
	return strings.TrimRight(out, "\r\n"), err
}

// repoSlug returns the override, or else the slug of origin.
func (w Worktree) repoSlug(ctx context.Context, override string) (string, error) {
	if override != "" {
		return override, checkOverride("RALPH_SCOPE_REPO", override)
	}
	origin, err := w.Origin(ctx)
	if err != nil {
		return "", err
	}
	if origin == "" {
		return "", hint.Wrap(ErrNoOrigin, "add one with %q; if there is no remote repository, with %q", "git remote add origin URL", "git remote add origin "+w.localOrigin())
	}
	slug, err := Slug(origin)
	if err != nil {
		return "", hint.Wrap(fmt.Errorf("parsing the URL of origin: %w", err),
			"correct it with %q, or set RALPH_SCOPE_REPO=owner/repo", "git remote set-url origin URL")
	}
	return slug, nil
}

// localOrigin returns an origin for a repository without a remote one: only its path is used.
func (w Worktree) localOrigin() string {
	unquoted := func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}
	name := strings.Map(unquoted, filepath.Base(cmp.Or(w.MainRoot, w.Root)))
	return "local/" + cmp.Or(strings.TrimLeft(name, "-."), "project")
}

// branchName returns the override, or else the current branch. Without a commit on it, current
// is empty.
func (w Worktree) branchName(ctx context.Context, override, current string) (string, error) {
	if override != "" {
		return override, checkOverride("RALPH_SCOPE_BRANCH", override)
	}
	if current != "" {
		return current, nil
	}
	current, err := w.ask(ctx, "branch", "--show-current")
	if err != nil {
		return "", fmt.Errorf("reading the current branch: %w", err)
	}
	if current == "" {
		return "", ErrDetached
	}
	return current, nil
}

// checkOverride rejects values that are unfit for labels and terminals.
func checkOverride(name, value string) error {
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("%s=%q: line breaks, control characters and invalid UTF-8 are not allowed", name, value)
	}
	return nil
}

// mainRoot finds the main worktree of a linked one: core.worktree of the common git
// directory, or else its parent, which has to lead back there.
func mainRoot(commonDir string, c Config) string {
	root := filepath.Dir(commonDir)
	if worktree := c.Last("core", "worktree"); worktree != "" {
		root = filepath.FromSlash(worktree)
		if !filepath.IsAbs(root) {
			root = filepath.Join(commonDir, root)
		}
	}
	if root = realPath(root); strings.EqualFold(c.Last("core", "bare"), "true") || !leadsTo(root, commonDir) {
		return ""
	}
	return root
}

// realPath resolves symbolic links if possible.
func realPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return filepath.Clean(path)
}

// sameFile reports whether both paths are the same existing file or directory.
func sameFile(a, b string) bool {
	ai, err := os.Stat(a)
	if err != nil {
		return false
	}
	bi, err := os.Stat(b)
	return err == nil && os.SameFile(ai, bi)
}
