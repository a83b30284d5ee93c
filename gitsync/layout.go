package gitsync

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/objectdirs"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Layout describes the mounts that replace the git directory of a worktree.
type Layout struct {
	// Folder is where the volume with the private git directory is mounted.
	Folder string
	// Over are further mount points of the volume: .git where it is a directory, and
	// its other spellings on a file system that ignores case.
	Over []string
	// Worktree is where a clone has its own volume with the working tree; empty for the
	// user's live files.
	Worktree string
	// GitFile is a file of the host that is mounted over .git, at GitFileOver, where
	// that is a file. It leads to Folder.
	GitFile     string
	GitFileOver []string
	// Objects are the user's object directories, mounted read-only.
	Objects []objectdirs.Dir
	// Masked are directories of the worktree that are empty in the sandbox, and Anchored
	// those above them, which cannot be renamed there.
	Masked, Anchored []string
	// Fill writes the initial content of the volume as a tar archive. Names begin with
	// the last element of Folder, files belong to user ("UID:GID"), and HEAD is the
	// last one: a volume without HEAD has to be filled.
	Fill func(ctx context.Context, user string, w io.Writer) error
}

// gitFilePath is the file that is mounted over the .git file of a linked worktree.
func gitFilePath(stateDir, name string) string {
	return filepath.Join(stateDir, "git", name+".dotgit")
}

// Layout prepares the mounts of a new sandbox.
func (r *Repo) Layout(ctx context.Context) (*Layout, error) {
	if r.clone {
		_, err := objectdirs.FindApproved(r.git.CommonDir, r.alternates)
		return r.cloneLayout(), err
	}
	l := &Layout{Folder: Folder, Fill: r.Fill}
	var err error
	if l.Objects, err = objectdirs.FindApproved(r.git.CommonDir, r.alternates); err != nil {
		return nil, err
	}
	dotGit := filepath.Join(r.git.Root, ".git")
	info, err := os.Lstat(dotGit)
	if err != nil {
		return nil, fmt.Errorf("reading the repository: %w", err)
	}
	spellings := append([]string{dotGit}, otherSpellings(dotGit, info)...)
	if info.IsDir() {
		l.Over = spellings
	} else {
		l.GitFile, l.GitFileOver = gitFilePath(r.stateDir, r.name), spellings
		if err := writeGitFile(l.GitFile); err != nil {
			return nil, err
		}
	}
	if l.Masked, err = r.masked(); err != nil {
		return nil, err
	}
	l.Anchored = anchored(r.git.Root, l.Masked)
	return l, r.saveMasked(ctx, l.Masked)
}

// writeGitFile keeps an unchanged file, which a sandbox may have mounted.
func writeGitFile(path string) error {
	content := []byte("gitdir: " + Folder + "\n")
	if was, err := os.ReadFile(path); err == nil && string(was) == string(content) {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = atomicwriter.WriteFile(path, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("preparing the private git directory: %w", err)
	}
	return nil
}

// worktrees is where docker ralph creates linked worktrees, below the main one.
const worktrees = ".worktrees"

// masked returns the directories in the worktree that lead to the user's git directory
// by another way than .git: other worktrees, whose .git files an agent could change,
// and git directories. The directory for worktrees is always one of them, for those to
// come.
func (r *Repo) masked() ([]string, error) {
	all, err := r.nested()
	if err != nil {
		return nil, err
	}
	var masked []string
	if r.git.GitDir == r.git.CommonDir {
		dir := filepath.Join(r.git.Root, worktrees)
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = r.git.Owner.Chown(dir)
		}
		if info, statErr := os.Lstat(dir); statErr == nil && info.IsDir() && (err == nil || os.IsExist(err)) {
			masked = append(masked, dir)
		}
	}
	for _, path := range all {
		if within(path, masked) {
			continue
		}
		if err := r.checkPath(path); err != nil {
			return nil, err
		}
		masked = append(masked, path)
	}
	return masked, nil
}

// nested returns the git directories and the other worktrees of the repository that
// are in this worktree.
func (r *Repo) nested() ([]string, error) {
	linked, err := gitrepo.LinkedWorktrees(r.git.CommonDir)
	if err != nil {
		return nil, fmt.Errorf("listing worktrees: %w", err)
	}
	all := append([]string{r.git.GitDir, r.git.CommonDir}, slices.Sorted(maps.Values(linked))...)
	if dir, name := filepath.Split(r.git.CommonDir); name == ".git" {
		all = append(all, filepath.Clean(dir)) // the main worktree
	}
	return slices.DeleteFunc(all, func(path string) bool {
		rel, err := filepath.Rel(r.git.Root, path)
		return err != nil || rel == "." || rel == ".git" || !filepath.IsLocal(rel) || !exists(path)
	}), nil
}

// within reports whether a path is one of the directories, or in one.
func within(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
	})
}

// checkPath refuses links on the path of a nested worktree: an agent could have made
// them, and something else would be mounted.
func (r *Repo) checkPath(path string) error {
	for dir := path; dir != r.git.Root; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return hint.Wrap(fmt.Errorf("masking the nested worktree %s: %s is not a directory", path, dir),
				"remove the link, or the worktree with %q", "git worktree prune")
		}
	}
	return nil
}

// checkMasked refuses a sandbox that sees another worktree, because it could change
// the .git file there.
func (r *Repo) checkMasked(st state) error {
	if r.clone {
		return nil
	}
	all, err := r.nested()
	if err != nil {
		return err
	}
	for _, path := range all {
		if !within(path, st.Masked) {
			return hint.Wrap(fmt.Errorf("the nested worktree %s was added after the sandbox was created", path),
				"recreate the sandbox with --recreate, or move the worktree with %q", "git worktree move")
		}
	}
	return nil
}

func (r *Repo) saveMasked(ctx context.Context, masked []string) error {
	r, unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := r.readState()
	if err != nil {
		return err
	}
	st.Masked = masked
	return r.save(st)
}

// anchored returns the directories between the worktree and those masked: something
// else could be put in their place if they were renamed.
func anchored(root string, masked []string) []string {
	var between []string
	for _, path := range masked {
		for dir := filepath.Dir(path); dir != root; dir = filepath.Dir(dir) {
			if !slices.Contains(between, dir) {
				between = append(between, dir)
			}
		}
	}
	return between
}

// otherSpellings returns the spellings of .git that are the same file.
func otherSpellings(dotGit string, info os.FileInfo) []string {
	var same []string
	for _, name := range []string{".giT", ".gIt", ".gIT", ".Git", ".GiT", ".GIt", ".GIT"} {
		path := filepath.Join(filepath.Dir(dotGit), name)
		if other, err := os.Lstat(path); err == nil && os.SameFile(info, other) {
			same = append(same, path)
		}
	}
	return same
}
