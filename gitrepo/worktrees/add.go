package worktrees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Path is where [Repository.Add] creates a worktree.
func (r *Repository) Path(name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	if r.main == "" {
		return "", hint.Wrap(fmt.Errorf("repository %s has no main worktree for %s", r.common, Folder), "run %q, and use docker ralph there", "git worktree add")
	}
	return filepath.Join(r.main, Folder, name), nil
}

// Add creates a worktree below [Folder] on a branch of the repository or of origin, or on a
// new one from the current HEAD, as created reports. A worktree whose directory was removed
// is recreated.
func (r *Repository) Add(ctx context.Context, name, branch string) (t Tree, created bool, err error) {
	path, err := r.Path(name)
	if err != nil {
		return Tree{}, false, err
	}
	if err := r.checkBranch(ctx, branch); err != nil {
		return Tree{}, false, err
	}
	if err := r.clear(ctx, name, path); err != nil {
		return Tree{}, false, err
	}
	if err := r.prepare(); err != nil {
		return Tree{}, false, fmt.Errorf("creating the directory for worktrees: %w", err)
	}
	args, created, err := r.start(ctx, path, branch)
	if err != nil {
		return Tree{}, false, err
	}
	if _, err = r.git.Run(ctx, append([]string{"worktree", "add", "--quiet", "--no-checkout"}, args...)...); err == nil {
		err = r.checkOut(ctx, path)
	}
	if err != nil {
		return Tree{}, false, withAdvice(fmt.Errorf("creating worktree %q on branch %q: %w", name, branch, err))
	}
	t, found, err := r.Find(ctx, name)
	if err == nil && !found {
		err = hint.Wrap(fmt.Errorf("git has not created worktree %q at %s", name, path), "run %q", "git worktree list")
	}
	return t, created, err
}

// checkOut creates the files of a new worktree. The configuration there can differ from that of the
// current one (includeIf), so that git worktree add would run its filters.
func (r *Repository) checkOut(ctx context.Context, path string) error {
	program, err := gitrepo.NewGit(path)
	if err == nil {
		_, err = program.Run(ctx, "reset", "--hard", "--quiet")
	}
	if err != nil { // as git worktree add does
		_, removeErr := r.git.Run(context.WithoutCancel(ctx), "worktree", "remove", "--force", "--", path)
		err = errors.Join(err, removeErr)
	}
	return err
}

// checkBranch rejects what git rejects as the name of a branch.
func (r *Repository) checkBranch(ctx context.Context, branch string) error {
	out, err := r.git.Run(ctx, "check-ref-format", "--branch", branch)
	if err == nil && strings.TrimSuffix(out, "\n") != branch {
		err = fmt.Errorf("%q is short for branch %q", branch, strings.TrimSpace(out))
	}
	if err != nil {
		return hint.Wrap(err, "choose another branch with --branch-name")
	}
	return nil
}

// start returns the arguments for a branch that exists, here or at origin, or a new one.
func (r *Repository) start(ctx context.Context, path, branch string) (args []string, created bool, err error) {
	there, err := r.exists(ctx, "refs/heads/"+branch)
	if err != nil || there {
		return []string{"--", path, branch}, false, err
	}
	if there, err = r.exists(ctx, "refs/remotes/origin/"+branch); err != nil || there {
		return []string{"--track", "-b", branch, "--", path, "refs/remotes/origin/" + branch}, false, err
	}
	return []string{"-b", branch, "--", path}, true, nil
}

// withAdvice adds a hint to an error of git.
func withAdvice(err error) error {
	for _, of := range [][2]string{
		{"already checked out at", "choose another branch with --branch-name, or use or remove that worktree"},
		{"already used by worktree", "choose another branch with --branch-name, or use or remove that worktree"},
		{"cannot create", "choose another branch with --branch-name"},
		{"not a valid object name: 'HEAD'", "create the first commit"},
		{"invalid reference: HEAD", "create the first commit"},
	} {
		if strings.Contains(err.Error(), of[0]) {
			return hint.Wrap(err, "%s", of[1])
		}
	}
	return err
}

// clear removes the record of a worktree whose directory was removed.
func (r *Repository) clear(ctx context.Context, name, path string) error {
	_, err := os.Lstat(path)
	if err == nil {
		return hint.Wrap(fmt.Errorf("%s exists and is not a worktree", path), "rename or remove it, or choose another name")
	}
	t, found, err := r.Find(ctx, name)
	if err != nil || !found {
		return err
	}
	return r.Remove(ctx, t)
}

// prepare creates the directory for worktrees, in which git ignores everything. The
// repository may have a link there, which is not followed.
func (r *Repository) prepare() error {
	root, err := os.OpenRoot(r.main)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.Mkdir(Folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := root.Lstat(Folder)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return hint.Wrap(fmt.Errorf("%s is not a directory", filepath.Join(r.main, Folder)), "rename or remove it")
	}
	folder, err := root.OpenRoot(Folder)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	if opened, err := folder.Stat("."); err != nil || !os.SameFile(info, opened) {
		return fmt.Errorf("%s was replaced while it was opened", filepath.Join(r.main, Folder))
	}
	return ignoreAll(folder)
}

// ignoreAll makes git ignore all files in a directory.
func ignoreAll(folder *os.Root) error {
	const name, all = ".gitignore", "*"
	info, err := folder.Lstat(name)
	flags := os.O_RDWR | os.O_APPEND
	switch {
	case errors.Is(err, fs.ErrNotExist):
		flags |= os.O_CREATE | os.O_EXCL
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return hint.Wrap(fmt.Errorf("%s is not a regular file", filepath.Join(folder.Name(), name)), "rename or remove it")
	}
	f, err := folder.OpenFile(name, flags, 0o644)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err == nil && !bytes.Contains([]byte("\n"+string(content)+"\n"), []byte("\n"+all+"\n")) {
		if len(content) > 0 && content[len(content)-1] != '\n' {
			_, err = f.WriteString("\n")
		}
		if err == nil {
			_, err = f.WriteString(all + "\n")
		}
	}
	return errors.Join(err, f.Close())
}

// exists reports whether a ref exists.
func (r *Repository) exists(ctx context.Context, ref string) (bool, error) {
	_, err := r.git.Run(ctx, "show-ref", "--verify", "--quiet", ref)
	if gitrepo.SaysNo(err) {
		return false, nil
	}
	if err != nil && strings.Contains(err.Error(), "not a valid ref") {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", ref, err)
	}
	return true, nil
}
