package gitsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// state is what the host remembers of a sandbox. Synced is also a ref of the user's
// repository, which moves together with the branch.
type state struct {
	// Branch is the user's branch that the sandbox works on.
	Branch string `json:"branch"`
	// Head is the ref that the sandbox had checked out when it was filled or when its last
	// command ended.
	Head string `json:"head,omitempty"`
	// Synced is the last commit of the branch that both sides had; empty before the
	// first one.
	Synced string `json:"synced"`
	// Tips are the refs of the sandbox as of the last fetch. The user's repository has
	// their commits.
	Tips map[string]string `json:"tips"`
	// Pushed are those of the user's refs that the last push has sent.
	Pushed map[string]string `json:"pushed"`
	// Listed identifies all of the user's refs as of the last push.
	Listed string `json:"listed,omitempty"`
	// Pushing are the user's refs of an unfinished push, which the sandbox may have got.
	Pushing map[string]string `json:"pushing,omitempty"`
	// Parts are commits that the sandbox has got with their history, in an unfinished push.
	Parts []string `json:"parts,omitempty"`
	// Pending is an unfinished fast-forward.
	Pending *pending `json:"pending,omitempty"`
	// Restoring is an unfinished repair.
	Restoring *restoring `json:"restoring,omitempty"`
	// Clone says that the sandbox has a clone of the worktree.
	Clone bool `json:"clone,omitempty"`
	// Released says that a clone has nothing that the host lacks, and may be removed.
	Released bool `json:"released,omitempty"`
	// Emptied says that the working tree of a clone was removed, but not its commits.
	Emptied bool `json:"emptied,omitempty"`
	// Sent are the user's uncommitted changes that a clone has.
	Sent []sent `json:"sent,omitempty"`
	// Included are the patterns of the ignored files that a clone has got.
	Included []string `json:"included,omitempty"`
	// Prompts is the digest of the user's prompts that a clone has got.
	Prompts string `json:"prompts,omitempty"`
	// SetUp are the set-up commands that have succeeded in a clone.
	SetUp []string `json:"set_up,omitempty"`
	// Applied are the [Edits] of a clone that the user's files have got last.
	Applied string `json:"applied,omitempty"`
	// Dirty says that the sandbox may have commits that were not fetched.
	Dirty bool `json:"dirty"`
	// Gated says that some of those were made by a command with a [Gate].
	Gated bool `json:"gated,omitempty"`
	// Refused are refs of the sandbox that cannot be fetched.
	Refused map[string]refused `json:"refused,omitempty"`
	// SkipWorktree are those of Sent that are changes to tracked files, as git quotes them.
	SkipWorktree []string `json:"skipWorktree,omitempty"`
	// Retry says that the cause of a conflict may be over at the next fetch.
	Retry bool `json:"retry,omitempty"`
	// Held says that a [Gate] has held new commits back.
	Held bool `json:"held,omitempty"`
	// Unmerged are commits that the last sync has left out of the user's branch.
	Unmerged *Unmerged `json:"unmerged,omitempty"`
	// Loop says that the new commits are a loop's: the user's branch gets those of accepted runs only.
	Loop bool `json:"loop,omitempty"`
	// Accepted is the last commit of an accepted run, if the user's branch does not have it yet.
	Accepted string `json:"accepted,omitempty"`
}

// setSynced records that both sides have the branch at a commit.
func (st *state) setSynced(commit string) {
	st.Synced, st.Listed, st.Accepted = commit, "", ""
	if st.Pushed == nil {
		st.Pushed = map[string]string{}
	}
	st.Pushed["refs/heads/"+st.Branch] = commit
}

// pending is saved before the user's branch and index change.
type pending struct {
	From, To string
	Token    string // content of index.lock
	Undo     bool   `json:",omitempty"` // the sandbox does not have To as its commit
	Edits    bool   `json:",omitempty"` // To are uncommitted changes of the sandbox, and the branch stays
	// Writing says that files may be half written, and Same which have had the new content before. Paths are
	// not always UTF-8.
	Writing bool     `json:",omitempty"`
	Same    [][]byte `json:",omitempty"`
}

func statePath(stateDir, name string) string { return inGit(stateDir, name, "state.json") }

// inGit is a file of a sandbox's commits.
func inGit(stateDir, name, file string) string { return scopes.Path(stateDir, name, "git", file) }

// Known reports whether the host has state of a sandbox's commits.
func Known(stateDir, name string) bool {
	_, err := os.Stat(statePath(stateDir, name))
	return err == nil
}

// Saved reports whether the user's repository has all commits of a sandbox, which can be
// removed then. A clone also has to be released.
func Saved(stateDir, name string) bool {
	st, err := (&Repo{stateDir: stateDir, name: name}).readState()
	return err == nil && AllFetched(stateDir, name) && (!st.Clone || st.Released)
}

// AllFetched reports whether the user's repository has all commits of a clone, which may have more than those.
func AllFetched(stateDir, name string) bool {
	st, err := (&Repo{stateDir: stateDir, name: name}).readState()
	return err == nil && st.Tips != nil && !st.Dirty && !st.Held
}

// IsClone reports whether a sandbox has a clone of the worktree.
func IsClone(stateDir, name string) bool {
	st, err := (&Repo{stateDir: stateDir, name: name}).readState()
	return err == nil && st.Clone
}

// Abandon records that the commits of a sandbox are to be discarded.
func Abandon(stateDir, name string) error {
	return (&Repo{stateDir: stateDir, name: name}).save(state{Tips: map[string]string{}})
}

// MarkEmpty records that a new sandbox has nothing to lose yet.
func MarkEmpty(stateDir, name string) error {
	r := &Repo{stateDir: stateDir, name: name}
	return r.save(state{Tips: map[string]string{}})
}

// MarkEmptied records that the working tree of a clone was removed: the next push checks it out again,
// and the clone has to be set up again.
func MarkEmptied(stateDir, name string) error {
	r := &Repo{stateDir: stateDir, name: name}
	st, err := r.readState()
	if err != nil {
		return err
	}
	st.Emptied, st.Included, st.SetUp, st.Prompts = true, nil, nil, ""
	return r.save(st)
}

// Forget removes the state of a sandbox that was removed.
func Forget(stateDir, name string) error {
	if err := os.Remove(statePath(stateDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the git state of %s: %w", name, err)
	}
	return nil
}

// readState reads the state. A missing or damaged one is empty: a fetch finds
// everything again.
func (r *Repo) readState() (st state, err error) {
	content, err := os.ReadFile(statePath(r.stateDir, r.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("reading the git state of %s: %w", r.name, err)
	}
	if json.Unmarshal(content, &st) != nil {
		return state{}, nil
	}
	return st, nil
}

func (r *Repo) save(st state) error {
	content, err := json.Marshal(st)
	if err == nil {
		err = writePrivate(statePath(r.stateDir, r.name), append(content, '\n'))
	}
	if err != nil {
		return fmt.Errorf("saving the git state of %s: %w", r.name, err)
	}
	return nil
}

// writePrivate writes a file of the state directory.
func writePrivate(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicwriter.WriteFile(path, content, 0o600)
}

// lock waits for other commands that sync the sandbox. The git processes of the Repo
// that it returns hold the lock too.
func (r *Repo) lock(ctx context.Context) (locked *Repo, unlock func(), err error) {
	path := filepath.Join(r.stateDir, "locks", r.name+".git")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("locking %s: %w", path, err)
	}
	held, unlock, err := hostgit.Lock(ctx, path)
	if err != nil {
		return nil, nil, fmt.Errorf("locking %s: %w", path, err)
	}
	own := *r
	own.git = r.git.WithLock(held)
	return &own, unlock, nil
}

// open locks the sandbox, reads its state, and completes an interrupted fast-forward.
func (r *Repo) open(ctx context.Context) (*Repo, state, func(), error) {
	r, unlock, err := r.lock(ctx)
	if err != nil {
		return nil, state{}, nil, err
	}
	st, err := r.readState()
	if err == nil {
		st.Clone = true // also if the state was lost
		err = r.completePending(ctx, &st)
	}
	if err != nil {
		unlock()
		return nil, state{}, nil, err
	}
	return r, st, unlock, nil
}

// MarkDirty records that the sandbox may commit from now on, and whether with a [Gate] and as a loop.
func (r *Repo) MarkDirty(ctx context.Context) error {
	r, unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := r.readState()
	gated, loop := st.Gated || r.gate != nil, st.Loop || r.loop
	if err != nil || st.Dirty && !st.Released && gated == st.Gated && loop == st.Loop {
		return err
	}
	st.Dirty, st.Released, st.Gated, st.Loop = true, false, gated, loop
	return r.save(st)
}

// SetReleased records whether a clone has nothing that the host lacks: it is released before
// it is removed, and not any more when a command runs in it. A push of another command is not
// waited for if nothing changes.
func (r *Repo) SetReleased(ctx context.Context, released bool) error {
	return r.change(ctx, func(st *state) bool {
		changed := st.Released != released
		st.Released = released
		return changed
	})
}

// SetUp records the set-up commands that have succeeded in a clone.
func (r *Repo) SetUp(ctx context.Context, commands []string) error {
	return r.change(ctx, func(st *state) bool {
		changed := !slices.Equal(st.SetUp, commands)
		st.SetUp = commands
		return changed
	})
}

// IsSetUp reports whether these commands have succeeded in a clone.
func (r *Repo) IsSetUp(commands []string) (bool, error) {
	st, err := r.readState()
	return slices.Equal(st.SetUp, commands), err
}

// change changes the state, unless the function reports that it did not.
func (r *Repo) change(ctx context.Context, by func(*state) bool) error {
	if st, err := r.readState(); err != nil || !by(&st) {
		return err
	}
	r, unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := r.readState()
	if err != nil || !by(&st) {
		return err
	}
	return r.save(st)
}

// Gated reports whether commits of a sandbox that were not fetched were made by a command with
// a [Gate], which may have been killed.
func Gated(stateDir, name string) bool {
	st, err := (&Repo{stateDir: stateDir, name: name}).readState()
	return err == nil && st.Gated
}

// Unfinished reports whether an earlier command was interrupted, or has not ended yet.
func Unfinished(stateDir, name string) bool {
	st, err := (&Repo{stateDir: stateDir, name: name}).readState()
	return err == nil && (st.Pending != nil || st.Dirty || st.Retry)
}
