package gitsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/listing"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// ScriptError is the failure of a script in the sandbox, as opposed to one that could
// not be run.
type ScriptError struct {
	Code   int
	Stderr string
}

func (e *ScriptError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("git in the sandbox failed (exit code %d): %s", e.Code, termsafe.Line(e.Stderr)), ": ")
}

// Is reports a full disk of the sandbox as [syscall.ENOSPC].
func (e *ScriptError) Is(target error) bool {
	return target == syscall.ENOSPC && gitrepo.SaysFull(e.Stderr)
}

// invalidError says that commits are rejected for their content.
type invalidError struct{ error }

func (e *invalidError) Unwrap() error { return e.error }

// refused is a ref of the sandbox that cannot be fetched. Reported is set when the user
// sees the reason: [Repo.Follow] leaves that to the next sync.
type refused struct {
	ID       string `json:"id"`
	Why      string `json:"why"`
	Reported bool   `json:"reported,omitempty"`
	// Held says that a gate has held it back. It needs a gate later, too.
	Held bool `json:"held,omitempty"`
}

// receive lists the sandbox's refs, and adds the objects of new commits to the user's
// repository. Refs that cannot be fetched are recorded as refused and removed from the
// listing; the others continue. With retry, refused refs are tried again.
func (r *Repo) receive(ctx context.Context, st *state, sh Shell, retry bool) (listing.Listing, error) {
	if st.Held && r.gate == nil {
		return listing.Listing{}, &HeldError{Sandbox: r.name}
	}
	if st.Restoring != nil {
		return listing.Listing{}, &BrokenError{Sandbox: r.name, Why: "a repair was interrupted"}
	}
	known, err := r.known(ctx, st)
	if err != nil {
		return listing.Listing{}, err
	}
	req := request{known: known}
	again := func(_ string, bad refused) bool { return retry && (!bad.Held || r.gate != nil) }
	for ref, bad := range st.Refused {
		if !again(ref, bad) {
			req.without = append(req.without, bad.ID)
		}
	}
	left, wasHeld := maps.Clone(st.Refused), st.Held
	l, err := r.receiveObjects(ctx, st, sh, req, func(l listing.Listing) map[string]string {
		maps.DeleteFunc(left, func(ref string, bad refused) bool { return l.Refs[ref] != bad.ID })
		skipped := maps.Clone(left)
		maps.DeleteFunc(skipped, again)
		removeRefused(l, skipped)
		return l.Moved(st.Tips)
	})
	_, invalid := errors.AsType[*invalidError](err)
	_, held := errors.AsType[*HeldError](err)
	if moved := l.Moved(st.Tips); invalid && len(moved) > 0 || held && hasAttempt(moved) {
		st.Refused, st.Held = left, wasHeld
		return l, r.receiveEach(ctx, st, sh, l, known)
	}
	maps.DeleteFunc(left, again)
	if err == nil && (len(left) != len(st.Refused) || st.Held) { // which the gate has let pass, or the sandbox has discarded
		st.Refused, st.Held = left, false
		err = r.save(*st)
	}
	return l, err
}

// isAttempt reports whether a ref has what a run has left that was not accepted: what is wrong with it says nothing
// about other commits.
func isAttempt(ref string) bool { return strings.HasPrefix(ref, attemptref.Prefix) }

func hasAttempt(refs map[string]string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(refs)), isAttempt)
}

// known returns commits that both sides have.
func (r *Repo) known(ctx context.Context, st *state) ([]string, error) {
	if known := slices.Compact(slices.Sorted(maps.Values(st.Tips))); len(known) > 0 {
		return known, nil
	}
	base, err := r.git.Resolve(ctx, r.base()) // the state was lost
	if err != nil || base == "" {
		return nil, err
	}
	return []string{base}, nil
}

// maxSingle is how many refs are fetched one by one after they were refused together.
const maxSingle = 50

// receiveEach receives the refs of a listing one by one, the user's branch first.
func (r *Repo) receiveEach(ctx context.Context, st *state, sh Shell, l listing.Listing, known []string) error {
	moved, was := l.Moved(st.Tips), st.Refused
	st.Refused = maps.Clone(was)
	if st.Refused == nil {
		st.Refused = map[string]refused{}
	}
	for i, ref := range refname.Sorted(moved, st.Branch) {
		id := moved[ref]
		wasHeld := st.Held
		err := error(&invalidError{fmt.Errorf("more than %d new branches, one of which is invalid", maxSingle)})
		if i < maxSingle {
			_, err = r.receiveObjects(ctx, st, sh, request{known: known, only: id}, func(listing.Listing) map[string]string { return map[string]string{ref: id} })
		}
		invalid, is := errors.AsType[*invalidError](err)
		_, held := errors.AsType[*HeldError](err)
		switch {
		case held && isAttempt(ref):
			st.Held = wasHeld
			st.Refused[ref] = refused{ID: id, Why: err.Error(), Held: true}
		case is && was[ref].ID == id && was[ref].Why == invalid.Error():
			st.Refused[ref] = was[ref]
		case is:
			st.Refused[ref] = refused{ID: id, Why: invalid.Error()}
		case err != nil:
			return err
		default:
			delete(st.Refused, ref)
			known = append(known, id)
		}
	}
	removeRefused(l, st.Refused)
	return r.save(*st)
}

// removeRefused removes refs from a listing that were refused, and have not moved since.
func removeRefused(l listing.Listing, refused map[string]refused) {
	for ref, bad := range refused {
		if l.Refs[ref] == bad.ID {
			delete(l.Refs, ref)
		}
	}
}
