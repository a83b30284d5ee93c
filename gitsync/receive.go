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

// ScriptError says that a script failed in the sandbox, as opposed to one that
// could not be run.
type ScriptError struct {
	Code  int
	Words string // what it wrote to stderr
}

func (e *ScriptError) Error() string {
	return fmt.Sprintf("git in the sandbox failed (exit code %d): %s", e.Code, termsafe.Line(e.Words))
}

// Is says that a disk of the sandbox was full.
func (e *ScriptError) Is(target error) bool {
	return target == syscall.ENOSPC && gitrepo.SaysFull(e.Words)
}

// refusal says that commits were not taken, because of what they are.
type refusal struct{ why error }

func (e *refusal) Error() string { return e.why.Error() }
func (e *refusal) Unwrap() error { return e.why }

// refused is a ref of the sandbox whose commits were not taken, and why. Reported is
// set when a sync has returned it to be reported: what was only seen by a [Repo.Watch]
// is reported by the next sync, even one of another command.
type refused struct {
	ID       string `json:"id"`
	Why      string `json:"why"`
	Reported bool   `json:"reported,omitempty"`
}

// receive asks the sandbox for its refs and new commits, and takes the commits'
// objects into the user's repository, where no ref leads to them yet. A ref whose
// commits cannot be taken does not hold the others back: it is noted as refused,
// and left out of the listing. With again, such refs are tried again.
func (r *Repo) receive(ctx context.Context, st *state, sh Shell, again bool) (listing, error) {
	if st.Held && r.gate == nil {
		return listing{}, &HeldError{Sandbox: r.name}
	}
	known, err := r.known(ctx, st)
	if err != nil {
		return listing{}, err
	}
	leave := ""
	if !again {
		leave = st.refusedIDs()
	}
	l, err := r.fetch(ctx, st, sh, known, leave, "", func(l listing) map[string]string {
		if !again {
			l.leave(st.Refused)
		}
		return l.moved(st.Tips)
	})
	if _, is := errors.AsType[*refusal](err); is && len(l.moved(st.Tips)) > 0 {
		return l, r.receiveSingly(ctx, st, sh, l, known)
	}
	if err == nil && again && len(st.Refused) > 0 {
		st.Refused = nil
		err = r.save(*st)
	}
	return l, err
}

// known are commits that both sides have.
func (r *Repo) known(ctx context.Context, st *state) ([]string, error) {
	if known := slices.Compact(slices.Sorted(maps.Values(st.Tips))); len(known) > 0 {
		return known, nil
	}
	base, err := r.git.resolve(ctx, r.base()) // the state was lost
	if err != nil || base == "" {
		return nil, err
	}
	return []string{base}, nil
}

// maxSingle is how many refs are fetched one by one when they cannot be fetched
// together. The rest is tried by the next sync.
const maxSingle = 50

// receiveSingly takes what can be taken of a listing, one ref at a time. The user's
// branch comes first.
func (r *Repo) receiveSingly(ctx context.Context, st *state, sh Shell, l listing, known []string) error {
	moved, mine := l.moved(st.Tips), "refs/heads/"+st.Branch
	refs := slices.Sorted(maps.Keys(moved))
	if i := slices.Index(refs, mine); i > 0 {
		refs = slices.Insert(slices.Delete(refs, i, i+1), 0, mine)
	}
	bad := map[string]refused{}
	for i, ref := range refs {
		id := moved[ref]
		if i >= maxSingle {
			bad[ref] = refused{ID: id, Why: fmt.Sprintf("there are more than %d new branches beside it, and one of them is broken", maxSingle)}
			continue
		}
		_, err := r.fetch(ctx, st, sh, known, "", id, func(listing) map[string]string { return map[string]string{ref: id} })
		why, is := errors.AsType[*refusal](err)
		switch {
		case is:
			bad[ref] = refused{ID: id, Why: why.Error()}
		case err != nil:
			return err
		default:
			known = append(known, id)
		}
	}
	for ref, b := range bad {
		if was := st.Refused[ref]; was.ID == b.ID && was.Why == b.Why {
			bad[ref] = was
		}
	}
	st.Refused = bad
	l.leave(bad)
	return r.save(*st)
}

// refusedIDs are the commits that were refused, one a line.
func (st *state) refusedIDs() string {
	var ids []string
	for _, bad := range st.Refused {
		ids = append(ids, bad.ID)
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), "\n")
}

// leave takes refs that were refused, and have not moved since, out of a listing.
func (l listing) leave(bad map[string]refused) {
	for ref, b := range bad {
		if l.refs[ref] == b.ID {
			delete(l.refs, ref)
		}
	}
}

// fetch asks the sandbox for its refs, and takes the objects of those that wanted
// returns. The sandbox leaves out the commits leave, or sends only those of the
// commit only. The listing is returned with a refusal too.
func (r *Repo) fetch(ctx context.Context, st *state, sh Shell, known []string, leave, only string, wanted func(listing) map[string]string) (listing, error) {
	pack := filepath.Join(r.stateDir, "git", r.name+".pack")
	if err := os.MkdirAll(filepath.Dir(pack), 0o700); err != nil {
		return listing{}, fmt.Errorf("receiving the sandbox's commits: %w", err)
	}
	defer func() { _ = os.Remove(pack) }()
	l, err := r.ask(ctx, sh, known, leave, only, pack)
	if err != nil {
		return l, err
	}
	// All that gets a ref counts, not what the bundle says that it brings.
	tips := slices.Compact(slices.Sorted(maps.Values(wanted(l))))
	if !l.more {
		if len(tips) == 0 {
			return l, nil
		}
		pack = ""
	}
	return l, r.admit(ctx, st, pack, tips)
}

// ask has the sandbox list its refs and pack what is new of them.
func (r *Repo) ask(ctx context.Context, sh Shell, known []string, leave, only, pack string) (listing, error) {
	input := strings.Join(known, "\n")
	if input != "" {
		input += "\n"
	}
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	quiet := ""
	if r.quiet {
		quiet = r.folder
	}
	go func() {
		err := sh(ctx, outScript, []string{leave, only, quiet}, strings.NewReader(input), pw)
		_ = pw.CloseWithError(err)
		ended <- err
	}()
	buffered := bufio.NewReader(pr)
	l, err := readListing(buffered)
	listed := err == nil
	if listed && l.more {
		err = writePack(pack, buffered)
	}
	_ = pr.CloseWithError(err)
	shErr := <-ended
	sent := shErr == nil || errors.Is(shErr, err)
	if err == nil || !sent && !errors.Is(shErr, io.ErrClosedPipe) {
		err = shErr
	}
	if err == nil {
		return l, nil
	}
	err = fmt.Errorf("fetching the commits of the sandbox %s: %w", r.name, err)
	if errors.Is(err, syscall.ENOSPC) {
		return listing{}, err // and nothing is wrong with the commits
	}
	if _, failed := errors.AsType[*ScriptError](err); listed && (failed || errors.Is(err, errTooLarge)) {
		return l, &refusal{err} // of some of the refs, maybe
	}
	if _, failed := errors.AsType[*ScriptError](err); !listed && !failed && ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) && sent {
		return listing{}, &BrokenError{Sandbox: r.name, Why: err.Error()}
	}
	return listing{}, r.broken(err)
}
