package gitsync

import (
	"crypto/rand"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// indexEdit changes a copy of the user's index while its lock is held, and replaces the
// index at the end.
type indexEdit struct {
	index, lock, temp string
	refreshed         string // a copy of temp
	token             string // content of the lock, by which it is recognized as ours
	owner             hostgit.Owner
}

func newToken() string { return rand.Text() }

func (r *Repo) indexEdit(token string) indexEdit {
	index := filepath.Join(r.git.GitDir, "index")
	temp := index + ".ralph-" + token
	return indexEdit{
		index: index, lock: index + ".lock", temp: temp, refreshed: temp + ".refreshed",
		token: "docker-ralph " + token, owner: r.git.Owner,
	}
}

// start takes git's lock of the index and copies the index.
func (e indexEdit) begin() error {
	f, err := os.OpenFile(e.lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(e.token)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = e.owner.Chown(e.lock)
	}
	if err == nil {
		err = e.owner.CopyFile(e.index, e.temp)
	}
	return ignoreMissing(err)
}

// commit replaces the index.
func (e indexEdit) commit() error { return ignoreMissing(os.Rename(e.temp, e.index)) }

// ignoreMissing allows for a repository without an index.
func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// end removes the lock, if it is ours, and what the edit has left.
func (e indexEdit) end() {
	if content, err := os.ReadFile(e.lock); err == nil && string(content) == e.token {
		_ = os.Remove(e.lock)
	}
	for _, path := range []string{e.temp, e.refreshed} {
		_ = os.Remove(path)
		_ = os.Remove(path + ".lock")
	}
}
