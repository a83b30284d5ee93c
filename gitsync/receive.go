package gitsync

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// ScriptError is the failure of a script in the sandbox, as opposed to one that could
// not be run.
type ScriptError struct {
	Code   int
	Stderr string
}

func (e *ScriptError) Error() string {
	return fmt.Sprintf("git in the sandbox failed (exit code %d): %s", e.Code, termsafe.Line(e.Stderr))
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
}

// receive lists the sandbox's refs, and adds the objects of new commits to the user's
// repository. Refs that cannot be fetched are recorded as refused and removed from the
// listing; the others continue. With retry, refused refs are tried again.
func (r *Repo) receive(ctx context.Context, st *state, sh Shell, retry bool) (listing, error) {
	if st.Held && r.gate == nil {
		return listing{}, &HeldError{Sandbox: r.name}
	}
	known, err := r.known(ctx, st)
	if err != nil {
		return listing{}, err
	}
	req := request{known: known}
	if !retry {
		for _, bad := range st.Refused {
			req.without = append(req.without, bad.ID)
		}
	}
	l, err := r.receiveObjects(ctx, st, sh, req, func(l listing) map[string]string {
		if !retry {
			l.remove(st.Refused)
		}
		return l.moved(st.Tips)
	})
	if _, is := errors.AsType[*invalidError](err); is && len(l.moved(st.Tips)) > 0 {
		return l, r.receiveEach(ctx, st, sh, l, known)
	}
	if err == nil && retry && len(st.Refused) > 0 {
		st.Refused = nil
		err = r.save(*st)
	}
	return l, err
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
func (r *Repo) receiveEach(ctx context.Context, st *state, sh Shell, l listing, known []string) error {
	moved, was := l.moved(st.Tips), st.Refused
	st.Refused = map[string]refused{}
	for i, ref := range sortedRefs(moved, st.Branch) {
		id := moved[ref]
		err := error(&invalidError{fmt.Errorf("more than %d new branches, one of which is invalid", maxSingle)})
		if i < maxSingle {
			_, err = r.receiveObjects(ctx, st, sh, request{known: known, only: id}, func(listing) map[string]string { return map[string]string{ref: id} })
		}
		invalid, is := errors.AsType[*invalidError](err)
		switch {
		case is && was[ref].ID == id && was[ref].Why == invalid.Error():
			st.Refused[ref] = was[ref]
		case is:
			st.Refused[ref] = refused{ID: id, Why: invalid.Error()}
		case err != nil:
			return err
		default:
			known = append(known, id)
		}
	}
	l.remove(st.Refused)
	return r.save(*st)
}

// request is what a sandbox is asked for: its new commits beyond those known, without
// some, or only those of one commit.
type request struct {
	known, without []string
	only           string
}

// receiveObjects adds the objects of those refs of the sandbox that wanted returns. The
// listing is returned with an [invalidError] too.
func (r *Repo) receiveObjects(ctx context.Context, st *state, sh Shell, req request, wanted func(listing) map[string]string) (listing, error) {
	pack := filepath.Join(r.stateDir, "git", r.name+".pack")
	if err := os.MkdirAll(filepath.Dir(pack), 0o700); err != nil {
		return listing{}, fmt.Errorf("fetching from the sandbox %s: %w", r.name, err)
	}
	defer func() { _ = os.Remove(pack) }()
	l, err := r.request(ctx, sh, req, pack)
	if err != nil {
		return l, err
	}
	// What gets a ref is verified, whatever the bundle claims to contain.
	tips := slices.Compact(slices.Sorted(maps.Values(wanted(l))))
	if !l.bundle {
		if len(tips) == 0 {
			return l, nil
		}
		pack = ""
	}
	return l, r.admit(ctx, st, pack, tips)
}

// request gets the refs of the sandbox, and a pack of its new commits.
func (r *Repo) request(ctx context.Context, sh Shell, req request, pack string) (listing, error) {
	input := strings.Join(req.known, "\n")
	if input != "" {
		input += "\n"
	}
	idle, clone := "", ""
	if r.idle {
		idle = r.folder
	}
	if r.clone {
		clone = "clone"
	}
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := sh(ctx, fetchScript, []string{strings.Join(req.without, "\n"), req.only, idle, clone}, strings.NewReader(input), pw)
		_ = pw.CloseWithError(err)
		ended <- err
	}()
	buffered := bufio.NewReader(pr)
	l, err := readListing(buffered)
	listed := err == nil
	if listed && l.bundle {
		err = writePack(pack, buffered)
	}
	_ = pr.CloseWithError(err)
	shErr := <-ended
	completed := shErr == nil || errors.Is(shErr, err) // or would have, but for err
	if err == nil || !completed && !errors.Is(shErr, io.ErrClosedPipe) {
		err = shErr
	}
	if err == nil {
		return l, nil
	}
	_, failed := errors.AsType[*ScriptError](err)
	err = fmt.Errorf("fetching from the sandbox %s: %w", r.name, err)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return listing{}, err
	case listed && (failed || errors.Is(err, errTooLarge)):
		return l, &invalidError{err} // maybe of some refs only
	case !listed && !failed && ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) && completed:
		return listing{}, &BrokenError{Sandbox: r.name, Why: err.Error()}
	}
	return listing{}, r.asBroken(err)
}
