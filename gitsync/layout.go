package gitsync

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/gitsync/mask"
	"github.com/docker-ralph/docker-ralph/gitsync/objectdirs"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
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
	spellings := append([]string{dotGit}, mask.OtherSpellings(dotGit, info)...)
	if info.IsDir() {
		l.Over = spellings
	} else {
		l.GitFile, l.GitFileOver = gitFilePath(r.stateDir, r.name), spellings
		if err := writeGitFile(l.GitFile); err != nil {
			return nil, err
		}
	}
	if l.Masked, err = mask.Dirs(r.git); err != nil {
		return nil, err
	}
	l.Anchored = mask.Anchored(r.git.Root, l.Masked)
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

// checkNested looks at worktrees that were added after the sandbox was created, by which
// it is not prevented from changing them. They are reported once, and their .git files
// have to lead where git registered them: git that the user runs there follows them.
func (r *Repo) checkNested(st *state) (added []string, err error) {
	if r.clone {
		return nil, nil
	}
	all, err := mask.Nested(r.git)
	if err != nil {
		return nil, err
	}
	for _, path := range all {
		if mask.Within(path, st.Masked) {
			continue
		}
		if err := mask.CheckGitFile(r.git, path); err != nil {
			return nil, fmt.Errorf("the nested worktree %s was added after the sandbox was created: %w", termsafe.Name(path), err)
		}
		if !slices.Contains(st.Nested, path) {
			added = append(added, path)
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	st.Nested = append(st.Nested, added...)
	return added, r.save(*st)
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
	st.Masked, st.Nested = masked, nil
	return r.save(st)
}
