package gitsync

import (
	"context"
	"io"
	"path/filepath"
)

// Layout describes the mounts of a clone.
type Layout struct {
	// Folder is where the volume with the git directory is mounted, and Over where it is
	// mounted again: the .git of the worktree.
	Folder, Over string
	// Worktree is where the volume with the working tree is mounted.
	Worktree string
	// Fill writes the initial content of the volume as a tar archive. Names begin with
	// the last element of Folder, files belong to user ("UID:GID"), and HEAD is the
	// last one: a volume without HEAD has to be filled.
	Fill func(ctx context.Context, user string, w io.Writer) error
}

// Layout returns the mounts of a new sandbox.
func (r *Repo) Layout() *Layout {
	return &Layout{Folder: Folder, Over: filepath.Join(r.git.Root, ".git"), Worktree: r.git.Root, Fill: r.Fill}
}
