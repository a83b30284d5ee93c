package gitsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"
)

// state is what is noted on the host about a sandbox's git directory. What
// counts most, the last commit that both sides had, is also a ref of the
// user's repository, which moves together with the branch.
type state struct {
	// Branch is the user's branch that the sandbox works on.
	Branch string `json:"branch"`
	// Head is the ref that the sandbox had checked out when the last command in it
	// ended, or when it was filled.
	Head string `json:"head,omitempty"`
	// Synced is the branch's last commit that both sides had; empty before the
	// first one.
	Synced string `json:"synced"`
	// Tips are the refs that the sandbox is known to have, as they were then.
	// All of these commits are in the user's repository.
	Tips map[string]string `json:"tips"`
	// Given are the user's refs as the sandbox got them.
	Given map[string]string `json:"given"`
	// Pending is a move of the user's branch that has begun.
	Pending *pending `json:"pending,omitempty"`
	// Hidden are the folders below the work tree that the sandbox does not see.
	Hidden []string `json:"hidden,omitempty"`
	// Dirty says that the sandbox may have commits that nobody has fetched.
	Dirty bool `json:"dirty"`
	// Refused are refs of the sandbox whose commits could not be taken.
	Refused map[string]refused `json:"refused,omitempty"`
	// Guarded says that the sandbox's git leaves files alone that the user has not
	// committed, and Marked are those of them that its index has.
	Guarded bool     `json:"guarded,omitempty"`
	Marked  []string `json:"marked,omitempty"`
	// Again says that what kept the user's branch from following may pass by itself.
	Again bool `json:"again,omitempty"`
	// Held says that a [Gate] has held new commits back.
	Held bool `json:"held,omitempty"`
}

// agree notes that both sides have the branch at a commit.
func (st *state) agree(commit string) {
	st.Synced = commit
	if st.Given == nil {
		st.Given = map[string]string{}
	}
	st.Given["refs/heads/"+st.Branch] = commit
}

// pending is noted before the user's branch and index are changed.
type pending struct {
	From, To string
	Token    string // what our index.lock holds
}

// statePath is where the state of a sandbox's git directory is noted.
func statePath(stateDir, name string) string {
	return filepath.Join(stateDir, "git", name+".json")
}

// Saved reports whether all commits of a sandbox's git directory are in the
// user's repository, so that it can be removed.
func Saved(stateDir, name string) bool {
	st, err := readState(statePath(stateDir, name))
	return err == nil && st.Tips != nil && !st.Dirty && !st.Held
}

// Abandon notes that nothing in a sandbox's git directory is worth keeping.
func Abandon(stateDir, name string) error {
	r := &Repo{stateDir: stateDir, name: name}
	return r.save(state{Tips: map[string]string{}})
}

// Forget removes what is noted about a sandbox's git directory that is gone. The
// file that lies over a .git file stays: the next sandbox has it mounted too.
func Forget(stateDir, name string) error {
	if err := os.Remove(statePath(stateDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the git directory of %s: %w", name, err)
	}
	return nil
}

// readState reads a state. Without one it is empty; so it is when it cannot be
// read, because everything in it can be found out again.
func readState(path string) (state, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("reading the state of the sandbox's git directory: %w", err)
	}
	var st state
	if json.Unmarshal(content, &st) != nil {
		return state{}, nil
	}
	return st, nil
}

func (r *Repo) save(st state) error {
	content, err := json.Marshal(st)
	if err == nil {
		err = os.MkdirAll(filepath.Join(r.stateDir, "git"), 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(statePath(r.stateDir, r.name), append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting the state of the sandbox's git directory: %w", err)
	}
	return nil
}

// lock keeps two commands from syncing at the same time. The copy of the Repo
// that it returns lets its git processes hold the lock too.
func (r *Repo) lock(ctx context.Context) (locked *Repo, unlock func(), err error) {
	dir := filepath.Join(r.stateDir, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("making the folder for locks: %w", err)
	}
	path := filepath.Join(dir, r.name+".git")
	held, unlock, err := acquire(ctx, path)
	if err != nil {
		return nil, nil, fmt.Errorf("locking %s: %w", path, err)
	}
	own := *r
	own.git.held = held
	return &own, unlock, nil
}

// open begins a sync: it takes the lock, reads the state, and brings to an end
// what a killed command has begun.
func (r *Repo) open(ctx context.Context) (*Repo, state, func(), error) {
	own, unlock, err := r.lock(ctx)
	if err != nil {
		return nil, state{}, nil, err
	}
	st, err := readState(statePath(r.stateDir, r.name))
	if err == nil {
		err = own.recover(ctx, &st)
	}
	if err != nil {
		unlock()
		return nil, state{}, nil, err
	}
	return own, st, unlock, nil
}

// Begin notes that the sandbox may commit from now on.
func (r *Repo) Begin(ctx context.Context) error {
	own, unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := readState(statePath(r.stateDir, r.name))
	if err != nil || st.Dirty {
		return err
	}
	st.Dirty = true
	return own.save(st)
}

// Unfinished reports whether an earlier command has left something to be brought
// to an end.
func (r *Repo) Unfinished() bool {
	st, err := readState(statePath(r.stateDir, r.name))
	return err == nil && (st.Pending != nil || st.Dirty || st.Again)
}
