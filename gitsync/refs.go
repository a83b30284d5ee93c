package gitsync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/listing"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
)

// snapshot is the part of the user's repository that a fetch needs.
type snapshot struct {
	tip        string            // of the user's branch; empty if there is none
	checkedOut bool              // the branch is checked out here
	elsewhere  bool              // it is checked out in another worktree
	used       string            // the operation of another worktree that will move it, e.g. "rebase"
	base       string            // the last common commit
	refs       map[string]string // below the prefix
}

func (r *Repo) snapshot(ctx context.Context, branch string) (snapshot, error) {
	out, err := r.git.Output(ctx, nil, "for-each-ref", "--format=%(objectname) %(HEAD)%(refname) %(worktreepath)", "refs/heads/"+branch, r.Prefix())
	if err != nil {
		return snapshot{}, fmt.Errorf("listing %s: %w", r.Prefix(), err)
	}
	s := snapshot{refs: map[string]string{}, used: r.usedElsewhere(branch)}
	for line := range strings.Lines(string(out)) {
		oid, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		ref, at, _ := strings.Cut(strings.TrimLeft(rest, "* "), " ")
		name, ours := strings.CutPrefix(ref, r.Prefix()+"/")
		switch {
		case ref == "refs/heads/"+branch:
			s.tip, s.checkedOut = oid, rest[0] == '*'
			s.elsewhere = !s.checkedOut && at != "" && exists(at)
		case ref == r.base():
			s.base = oid
		case ours:
			s.refs[name] = oid
		}
	}
	return s, nil
}

// maxMoved is how many refs are fetched at once.
const maxMoved = 1000

// updateSandboxRefs gives the sandbox's refs that have moved a name below the prefix. It
// returns the names, and where commits are that had one of them.
func (r *Repo) updateSandboxRefs(ctx context.Context, st *state, l listing.Listing, have, submodules map[string]string) (names, kept map[string]string, err error) {
	moved := l.Moved(st.Tips)
	names = refname.Locals(moved, st.Branch, submodules)
	if len(moved) == 0 {
		return names, map[string]string{}, nil
	}
	if len(moved) > maxMoved {
		return nil, nil, &RefusedError{Sandbox: r.name, Why: fmt.Sprintf("sandbox %s has more than %d new branches", r.name, maxMoved)}
	}
	wanted := map[string]string{}
	for ref := range moved {
		wanted[names[ref]] = ref
	}
	if kept, err = r.keepReplaced(ctx, st, moved, wanted, have); err != nil {
		return nil, nil, err
	}
	var input strings.Builder
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if oid := moved[wanted[name]]; have[name] != oid {
			_, _ = fmt.Fprintf(&input, "update %s/%s %s\n", r.Prefix(), name, oid)
		}
	}
	if err := r.updateRefs(ctx, input.String()); err != nil {
		return nil, nil, err
	}
	if st.Tips == nil {
		st.Tips = map[string]string{}
	}
	maps.Copy(st.Tips, moved)
	return names, kept, r.save(*st)
}

// keepReplaced gives commits another name that would lose theirs to refs of the sandbox:
// because one would be a directory of the other, or because they are an earlier
// sandbox's. What this sandbox had there itself it has rewritten. wanted are its refs
// that have moved, by name.
func (r *Repo) keepReplaced(ctx context.Context, st *state, moved, wanted, have map[string]string) (kept map[string]string, err error) {
	var updates, deletions strings.Builder
	kept = map[string]string{}
	done := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		ref, replaced := wanted[name]
		oid, from := have[name], r.Prefix()+"/"+name
		switch {
		case obstructs(name, wanted):
			_, _ = fmt.Fprintf(&deletions, "delete %s\n", from)
		case !replaced || oid == moved[ref] || oid == st.Tips[ref]:
			continue
		default:
			if only, err := r.onlyIn(ctx, oid, moved[ref]); err != nil {
				return nil, err
			} else if !only {
				continue
			}
		}
		kept[from] = r.Prefix() + "/" + refname.Kept + oid
		if strings.HasPrefix(name, refname.Submodule) {
			kept[from] = r.Prefix() + "/" + refname.Submodule + refname.Kept + oid
		}
		if !done[oid] {
			_, _ = fmt.Fprintf(&updates, "update %s %s\n", kept[from], oid)
			done[oid] = true
		}
	}
	return kept, r.updateRefs(ctx, updates.String()+deletions.String())
}

// onlyIn reports whether neither another commit nor the user's branches contain one.
func (r *Repo) onlyIn(ctx context.Context, oid, other string) (bool, error) {
	found, err := r.git.Line(ctx, "rev-list", "--max-count=1", oid, "--not", other, "--branches")
	if err != nil {
		return false, fmt.Errorf("searching the branches for %s: %w", oid, err)
	}
	return found != "", nil
}

// obstructs reports whether a name is a directory of one that is wanted, or below it.
func obstructs(name string, wanted map[string]string) bool {
	for other := range wanted {
		if strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			return true
		}
	}
	return false
}

func (r *Repo) updateRefs(ctx context.Context, input string) error {
	if input == "" {
		return nil
	}
	if _, err := r.git.Output(ctx, strings.NewReader(input), "update-ref", "-m", "ralph: from sandbox "+r.name, "--stdin"); err != nil {
		return fmt.Errorf("updating %s: %w", r.Prefix(), err)
	}
	return nil
}
