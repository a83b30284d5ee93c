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
)

// Path is where [Repository.Add] puts the work tree of that name.
func (r *Repository) Path(name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	if r.main == "" {
		return "", fmt.Errorf("the repository %s has no main work tree to put %s into: add worktrees with \"git worktree add\", and use docker ralph in them", r.common, Folder)
	}
	return filepath.Join(r.main, Folder, name), nil
}

// Add makes a work tree below [Folder] on a branch. One that exists is checked
// out, also if only the remote "origin" has it; a new one starts where the
// current work tree is. If the work tree's folder was removed behind git's back,
// it is made again. created reports whether the branch is a new one.
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
		return Tree{}, false, fmt.Errorf("making the folder for worktrees: %w", err)
	}
	args, created, err := r.start(ctx, path, branch)
	if err != nil {
		return Tree{}, false, err
	}
	if _, err := r.git.Run(ctx, append([]string{"worktree", "add", "--quiet"}, args...)...); err != nil {
		return Tree{}, false, fmt.Errorf("making the worktree %q on branch %q: %w%s", name, branch, err, advice(err))
	}
	t, found, err := r.Find(ctx, name)
	if err == nil && !found {
		err = fmt.Errorf("git has made the worktree %q, but not at %s: see \"git worktree list\"", name, path)
	}
	return t, created, err
}

// checkBranch has git say what it refuses as the name of a branch. An option
// would be one for it.
func (r *Repository) checkBranch(ctx context.Context, branch string) error {
	out, err := r.git.Run(ctx, "check-ref-format", "--branch", branch)
	if err == nil && strings.TrimSuffix(out, "\n") != branch {
		err = fmt.Errorf("%q stands for the branch %q", branch, strings.TrimSpace(out))
	}
	if err != nil {
		return fmt.Errorf("%w; choose another branch with --branch-name", err)
	}
	return nil
}

// start says what a work tree begins with: a branch that is there, or that the
// remote "origin" has, or one that is created here.
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

// advice is what to do about what git has said.
func advice(err error) string {
	for _, of := range [][2]string{
		{"already checked out at", "choose another branch with --branch-name, or use or remove that worktree"},
		{"already used by worktree", "choose another branch with --branch-name, or use or remove that worktree"},
		{"cannot create", "choose another branch with --branch-name"},
		{"not a valid object name: 'HEAD'", "make a first commit, from which the worktree can start"},
		{"invalid reference: HEAD", "make a first commit, from which the worktree can start"},
	} {
		if strings.Contains(err.Error(), of[0]) {
			return "; " + of[1]
		}
	}
	return ""
}

// clear makes sure that nothing is in the way of a new work tree.
func (r *Repository) clear(ctx context.Context, name, path string) error {
	_, err := os.Lstat(path)
	if err == nil {
		return fmt.Errorf("%s exists, but git knows no worktree there: rename or remove it, or choose another name", path)
	}
	t, found, err := r.Find(ctx, name)
	if err != nil || !found {
		return err
	}
	return r.Remove(ctx, t)
}

// prepare makes the folder for work trees, in which git ignores everything. The
// repository may have put something else there, which must not lead us away.
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
		return fmt.Errorf("%s is no folder: rename or remove it", filepath.Join(r.main, Folder))
	}
	folder, err := root.OpenRoot(Folder)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	if opened, err := folder.Stat("."); err != nil || !os.SameFile(info, opened) {
		return fmt.Errorf("%s has just been replaced: try again", filepath.Join(r.main, Folder))
	}
	return ignoreAll(folder)
}

// ignoreAll has git ignore all in a folder.
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
		return fmt.Errorf("%s is no regular file: rename or remove it", filepath.Join(folder.Name(), name))
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

// exists reports whether there is such a ref.
func (r *Repository) exists(ctx context.Context, ref string) (bool, error) {
	_, err := r.git.Run(ctx, "show-ref", "--verify", "--quiet", ref)
	if gitrepo.SaysNo(err) {
		return false, nil
	}
	if err != nil && strings.Contains(err.Error(), "not a valid ref") {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for %s: %w", ref, err)
	}
	return true, nil
}
