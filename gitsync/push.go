package gitsync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/listing"
)

// switchBackScript checks a branch out that the sandbox has left: a killed loop has not
// done so. Its output is for the user.
const switchBackScript = `PATH=/opt/ralph/bin:$PATH ralph _branch "$1"`

// Push fetches the sandbox's commits, and then moves the sandbox to where the user's
// repository is. A *Conflict as the error says that both sides have moved; the sandbox
// is unchanged then.
func (r *Repo) Push(ctx context.Context, sh Shell) (Result, error) {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	r.idle, r.pushes, sh = true, true, r.unblocked(sh)
	wasDetached := st.Branch == ""
	res := Result{Branch: st.Branch, head: st.Head}
	if !st.new() {
		res, err = r.fetch(ctx, &st, sh, nil, true)
	}
	if err == nil {
		err = r.setReported(&st)
	}
	if err != nil {
		return res, err
	}
	branch, err := r.branchToPush(ctx, &st)
	if err != nil {
		return res, err
	}
	switched := branch != st.Branch
	if c := res.Conflict; c != nil && (!switched || c.Kind != checkedOutElsewhere && !c.FixedInSandbox()) {
		res.Conflict = nil // it is the error
		return res, asError(c, nil)
	}
	if !wasDetached && res.head != "refs/heads/"+st.Branch && res.refs["refs/heads/"+st.Branch] != "" {
		var output strings.Builder
		if err := sh(ctx, switchBackScript, []string{st.Branch}, nil, &output); err != nil {
			return res, fmt.Errorf("checking out %s in sandbox %s: %w", st.Branch, r.name, err)
		}
		res.switchedBack = strings.TrimSpace(output.String())
	}
	res.Emptied = st.Emptied
	if err := errors.Join(r.refillFiles(ctx, &st, sh), r.removeChanges(ctx, &st, sh)); err != nil {
		return res, err
	}
	if err := r.pushAccepted(ctx, &st, sh, branch, wasDetached, &res); err != nil {
		return res, err
	}
	if err := errors.Join(r.sendIncluded(ctx, &st, sh, &res), r.sendPrompts(ctx, &st, sh)); err != nil {
		return res, err
	}
	if r.changes {
		err := r.sendChanges(ctx, &st, sh, &res)
		return res, err
	}
	res.Uncommitted, err = r.unsent(ctx)
	return res, err
}

// PushUnchanged is [Repo.Push] without a fetch, for a sandbox that has not changed since
// the last one. done is false, and nothing has changed, if the sandbox may have.
func (r *Repo) PushUnchanged(ctx context.Context, sh Shell) (res Result, done bool, err error) {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, false, err
	}
	defer unlock()
	sh = r.unblocked(sh)
	if !st.unchanged() || r.changes || r.lacksIncluded(&st) || r.lacksPrompts(ctx, &st) {
		return Result{}, false, nil
	}
	branch, err := r.branchToPush(ctx, &st)
	if err != nil {
		return Result{}, false, err
	}
	res = Result{Branch: st.Branch, tip: st.Synced, head: st.Head, refs: st.Tips}
	if err := r.pushAccepted(ctx, &st, sh, branch, false, &res); err != nil {
		if _, is := errors.AsType[*ScriptError](err); is {
			err = nil
		}
		return Result{}, false, err
	}
	res.Uncommitted, err = r.unsent(ctx)
	return res, true, err
}

// new reports whether the sandbox was filled, and has got nothing yet.
func (st *state) new() bool {
	return st.Tips != nil && len(st.Tips) == 0 && st.Synced == "" && st.Pushing == nil && st.Parts == nil && !st.Dirty && !st.Held && st.Restoring == nil && !st.Emptied
}

// unchanged reports whether the sandbox had nothing to fetch, and its branch checked
// out, when its last command ended.
func (st *state) unchanged() bool {
	own := "refs/heads/" + st.Branch
	return st.Synced != "" && st.Pushing == nil && st.Head == own && st.Tips[own] == st.Synced && !st.Dirty && !st.Held && !st.Retry && st.Pending == nil && st.Restoring == nil && len(st.Refused) == 0 && len(st.Sent) == 0 && !st.Emptied
}

func (r *Repo) push(ctx context.Context, st *state, sh Shell, branch string, wasDetached bool, res Result) error {
	refs, base, err := r.git.Refs(ctx, r.base())
	if err != nil {
		return err
	}
	ref := "refs/heads/" + branch
	tip, old := refs[ref], res.refs[ref]
	same := branch == st.Branch
	listed := refsDigest(refs)
	if refs, err = r.pushable(ctx, st, refs, branch, same && listed == st.Listed); err != nil {
		return err
	}
	switch {
	case !wasDetached && same && tip == old && maps.Equal(refs, st.Pushed):
		if base != tip {
			err = r.setBase(ctx, tip)
		}
		if err != nil || listed == st.Listed {
			return err
		}
		st.Listed = listed
		return r.save(*st)
	case tip == "" && old != "":
		return asError(r.explain(ctx, &Conflict{Kind: branchGone}, branch, tip, old))
	case !same && old != "" && old != st.Pushed[ref]:
		// The sandbox has moved a branch that the user has now switched to.
		if has, err := r.git.Contains(ctx, tip, old); err != nil || !has {
			return errors.Join(err, asError(r.explain(ctx, &Conflict{Kind: diverged}, branch, tip, old)))
		}
	}
	tips, updates := st.refUpdates(refs, res.refs, ref)
	if old == "" {
		old = strings.Repeat("0", len(tip))
	}
	index := res.tip
	if wasDetached {
		index = ""
	}
	st.Pushing = refs
	if err := r.save(*st); err != nil {
		return err
	}
	if err := r.sendPush(ctx, sh, st, branch, index, tip, old, updates); err != nil {
		_, failed := errors.AsType[*ScriptError](err)
		if failed && Permanent(err) && same && !wasDetached && st.Synced != "" && res.refs[ref] == "" {
			return &BrokenError{Sandbox: r.name, Why: "it does not have the commits of its branch " + branch} // as a new repository
		}
		return fmt.Errorf("pushing to sandbox %s: %w", r.name, err)
	}
	if err := r.setBase(ctx, tip); err != nil {
		return err
	}
	st.Branch, st.Head, st.Synced, st.Tips, st.Pushed, st.Pushing, st.Parts, st.Held, st.Listed = branch, ref, tip, tips, refs, nil, nil, false, listed
	st.Accepted = ""
	return r.save(*st)
}

// pushable returns which of the user's refs a sandbox gets: those of commits that the branch has, so that what
// is on others stays out. One that it has got before stays where it was. listed says that the refs are those of
// the last push: finding out takes long in a repository with many.
func (r *Repo) pushable(ctx context.Context, st *state, refs map[string]string, branch string, listed bool) (map[string]string, error) {
	if listed {
		return maps.Clone(st.Pushed), nil
	}
	if refs["refs/heads/"+branch] == "" {
		return map[string]string{}, nil
	}
	merged, err := r.git.Merged(ctx, branch)
	if err != nil {
		return nil, err
	}
	some := map[string]string{}
	for name, oid := range refs {
		if was, has := st.Pushed[name]; merged[name] {
			some[name] = oid
		} else if has {
			some[name] = was
		}
	}
	return some, nil
}

// refsDigest identifies a listing of refs.
func refsDigest(refs map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		_, _ = fmt.Fprintf(sum, "%s %s\n", refs[name], name)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// completePush records what the sandbox has got from an unfinished push, which would look
// like its own commits.
func (r *Repo) completePush(ctx context.Context, st *state, l listing.Listing) error {
	if st.Pushing == nil {
		return nil
	}
	if st.Tips == nil {
		st.Tips = map[string]string{}
	}
	if st.Pushed == nil {
		st.Pushed = map[string]string{}
	}
	for ref, oid := range st.Pushing {
		if l.Refs[ref] != oid || st.Pushed[ref] == oid {
			continue
		}
		if ref == "refs/heads/"+st.Branch {
			if err := r.setBase(ctx, oid); err != nil {
				return err
			}
			st.Synced = oid
		}
		st.Tips[ref], st.Pushed[ref], st.Listed = oid, oid, ""
	}
	st.Pushing = nil
	return r.save(*st)
}

// refUpdates returns the commands that update the sandbox's refs to those of the user
// that have changed, except for branches that the sandbox has moved and the user's own
// branch, and the refs that the sandbox has afterwards.
func (st *state) refUpdates(refs, sandbox map[string]string, own string) (tips map[string]string, commands string) {
	var b strings.Builder
	tips = maps.Clone(st.Tips)
	unmoved := func(ref string) bool {
		return !strings.HasPrefix(ref, "refs/heads/") || sandbox[ref] == st.Pushed[ref]
	}
	for _, ref := range slices.Sorted(maps.Keys(st.Pushed)) {
		if refs[ref] == "" && ref != own && unmoved(ref) {
			_, _ = fmt.Fprintf(&b, "delete %s\n", ref)
			delete(tips, ref)
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if refs[ref] != st.Pushed[ref] && ref != own && unmoved(ref) {
			_, _ = fmt.Fprintf(&b, "update %s %s\n", ref, refs[ref])
			tips[ref] = refs[ref]
		}
	}
	tips[own] = refs[own]
	return tips, b.String()
}

// Unsent returns what a clone lacks while a command in it prevents a push: whether the
// user's branch has moved, and the uncommitted changes that were to be sent.
func (r *Repo) Unsent(ctx context.Context) (commits bool, changes []string, err error) {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return false, nil, err
	}
	defer unlock()
	branch, err := r.branchToPush(ctx, &st)
	if err != nil {
		return false, nil, err
	}
	tip, err := r.git.Resolve(ctx, "refs/heads/"+branch)
	if err != nil {
		return false, nil, err
	}
	if r.changes {
		changes, err = r.Uncommitted(ctx)
	}
	return branch != st.Branch || tip != st.Synced, changes, err
}
