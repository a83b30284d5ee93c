// Package index edits the user's index while its lock is held.
package index

import (
	"crypto/rand"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// Edit changes a copy of the user's index while its lock is held, and replaces the
// index at the end.
type Edit struct {
	index, temp string
	Lock        string // of git
	refreshed   string // a copy of temp
	token       string // content of the lock, by which it is recognized as ours
	owner       hostgit.Owner
}

// NewToken returns a token for [New].
func NewToken() string { return rand.Text() }

// New returns an edit of the index of a repository. The token recognizes what a killed
// edit has left.
func New(g hostgit.Git, token string) Edit {
	index := filepath.Join(g.GitDir, "index")
	temp := index + ".ralph-" + token
	return Edit{
		index: index, Lock: index + ".lock", temp: temp, refreshed: temp + ".refreshed",
		token: "docker-ralph " + token, owner: g.Owner,
	}
}

// Begin takes git's lock of the index and copies the index.
func (e Edit) Begin() error {
	f, err := os.OpenFile(e.Lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(e.token)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = e.owner.Chown(e.Lock)
	}
	if err == nil {
		err = e.owner.CopyFile(e.index, e.temp)
	}
	return ignoreMissing(err)
}

// Commit replaces the index.
func (e Edit) Commit() error { return ignoreMissing(os.Rename(e.temp, e.index)) }

// ignoreMissing allows for a repository without an index.
func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// End removes the lock, if it is ours, and what the edit has left.
func (e Edit) End() {
	if content, err := os.ReadFile(e.Lock); err == nil && string(content) == e.token {
		_ = os.Remove(e.Lock)
	}
	for _, path := range []string{e.temp, e.refreshed} {
		_ = os.Remove(path)
		_ = os.Remove(path + ".lock")
	}
}

// Scratch returns git on an index that is empty at first and removed at the end.
func (e Edit) Scratch(g hostgit.Git) hostgit.Git { return g.With("GIT_INDEX_FILE=" + e.refreshed) }

// Git returns git on the copy of the index.
func (e Edit) Git(g hostgit.Git) hostgit.Git { return g.With("GIT_INDEX_FILE=" + e.temp) }
