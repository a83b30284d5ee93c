package gitsync

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// notesRef has the notes of [AddNote]; "git log --notes=ralph" shows them.
const notesRef = "refs/notes/ralph"

// AddNote adds lines to the git note of a commit of the user's repository. stateDir is as in [Open].
func AddNote(ctx context.Context, wt gitrepo.Worktree, stateDir, commit, lines string) error {
	g, err := hostgit.New(wt)
	if err != nil {
		return err
	}
	held, unlock, err := hostgit.Lock(ctx, filepath.Join(stateDir, "locks", "notes")) // git does not check for a race
	if err != nil {
		return fmt.Errorf("locking %s: %w", notesRef, err)
	}
	defer unlock()
	g = g.WithLock(held).With("GIT_AUTHOR_NAME=docker-ralph", "GIT_AUTHOR_EMAIL=docker-ralph@localhost", "GIT_COMMITTER_NAME=docker-ralph", "GIT_COMMITTER_EMAIL=docker-ralph@localhost")
	before, err := g.Output(ctx, nil, "notes", "--ref="+notesRef, "show", commit)
	if err != nil && !gitrepo.SaysNo(err) {
		return fmt.Errorf("reading the note of %.10s: %w", commit, err)
	}
	if _, err := g.Output(ctx, strings.NewReader(string(before)+lines), "notes", "--ref="+notesRef, "add", "--force", "--file=-", commit); err != nil {
		return fmt.Errorf("adding a note to %.10s: %w", commit, err)
	}
	return nil
}
