package gitsync

import (
	"context"
	"io"
)

// Layout is what a sandbox sees instead of the git directory of its work tree:
// one of its own, in a volume that outlives it until its commits are saved.
type Layout struct {
	// Folder is where the volume is mounted in the sandbox.
	Folder string
	// Over are folders of the work tree that the volume lies over as well:
	// .git, and its other spellings where they lead to the same folder.
	Over []string
	// Cover is a file of the host that lies over Covered, which is .git where
	// that is a file. It leads to Folder.
	Cover   string
	Covered []string
	// Borrowed are the user's objects, to be mounted read-only.
	Borrowed []Borrowed
	// Hidden are folders below the work tree that the sandbox sees empty, and
	// Pinned those that it must not rename.
	Hidden, Pinned []string
	// Fill writes what the volume holds at first, as a tar archive to be unpacked
	// beside it: all names begin with the last element of Folder. The files
	// belong to user ("UID:GID"). HEAD comes last: a volume without one is not
	// filled.
	Fill func(ctx context.Context, user string, w io.Writer) error
}

// Borrowed is a folder of the host that the sandbox reads.
type Borrowed struct{ Source, Target string }
