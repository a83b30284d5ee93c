package gitsync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// file gives the sandbox's refs that have moved a place in the user's
// repository. It returns where each is, and where what had its name is now.
func (r *Repo) file(ctx context.Context, st *state, l listing, there, barred map[string]string) (given, kept map[string]string, err error) {
	moved := l.moved(st.Tips)
	given = places(moved, st.Branch, barred)
	if len(moved) == 0 {
		return given, map[string]string{}, nil
	}
	if len(moved) > maxMoved {
		return nil, nil, &RefusedError{Sandbox: r.name, Why: fmt.Sprintf("the sandbox %s has more than %d new branches", r.name, maxMoved)}
	}
	wanted := map[string]string{}
	for ref := range moved {
		wanted[given[ref]] = ref
	}
	if kept, err = r.makeRoom(ctx, st, moved, wanted, there); err != nil {
		return nil, nil, err
	}
	var input strings.Builder
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if oid := moved[wanted[name]]; there[name] != oid {
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
	return given, kept, r.save(*st)
}

// makeRoom keeps commits under other names that would lose theirs to refs of the
// sandbox: because one of the two would be a folder of the other, or because they
// are from an earlier sandbox, or of before the state was lost. What this sandbox
// had there itself it has rewritten. wanted are its refs that have moved, by name.
func (r *Repo) makeRoom(ctx context.Context, st *state, moved, wanted, there map[string]string) (kept map[string]string, err error) {
	var updates, deletions strings.Builder
	kept = map[string]string{}
	done := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		ref, again := wanted[name]
		oid, from := there[name], r.Prefix()+"/"+name
		switch {
		case inTheWay(name, wanted):
			_, _ = fmt.Fprintf(&deletions, "delete %s\n", from)
		case !again || oid == moved[ref] || oid == st.Tips[ref]:
			continue
		default:
			if only, err := r.onlyIn(ctx, oid, moved[ref]); err != nil {
				return nil, err
			} else if !only {
				continue
			}
		}
		kept[from] = r.Prefix() + "/" + keptRef + oid
		if strings.HasPrefix(name, submoduleRef) {
			kept[from] = r.Prefix() + "/" + submoduleRef + keptRef + oid
		}
		if !done[oid] {
			_, _ = fmt.Fprintf(&updates, "update %s %s\n", kept[from], oid)
			done[oid] = true
		}
	}
	return kept, r.updateRefs(ctx, updates.String()+deletions.String())
}

// onlyIn reports whether something would be lost with a commit: neither another
// one nor the user's branches contain it.
func (r *Repo) onlyIn(ctx context.Context, oid, other string) (bool, error) {
	found, err := r.git.line(ctx, "rev-list", "--max-count=1", oid, "--not", other, "--branches")
	if err != nil {
		return false, fmt.Errorf("looking whether %s is on a branch: %w", oid, err)
	}
	return found != "", nil
}

// where is what the user's repository has, as far as a sync needs it.
type where struct {
	tip   string            // of the user's branch; empty if there is none
	here  bool              // whether that is checked out
	base  string            // last commit that both sides had
	filed map[string]string // what is below the prefix already
}

// look finds out where the user's repository is.
func (r *Repo) look(ctx context.Context, branch string) (where, error) {
	out, err := r.git.run(ctx, nil, "for-each-ref", "--format=%(objectname) %(HEAD) %(refname)", "refs/heads/"+branch, r.Prefix())
	if err != nil {
		return where{}, fmt.Errorf("listing %s: %w", r.Prefix(), err)
	}
	w := where{filed: map[string]string{}}
	for line := range strings.Lines(string(out)) {
		oid, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		ref := strings.TrimLeft(rest, "* ")
		name, ours := strings.CutPrefix(ref, r.Prefix()+"/")
		switch {
		case ref == "refs/heads/"+branch:
			w.tip, w.here = oid, rest[0] == '*'
		case ref == r.base():
			w.base = oid
		case ours:
			w.filed[name] = oid
		}
	}
	return w, nil
}

// inTheWay says that a name cannot be beside one that is wanted.
func inTheWay(name string, wanted map[string]string) bool {
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
	if _, err := r.git.run(ctx, strings.NewReader(input), "update-ref", "-m", "ralph: from the sandbox "+r.name, "--stdin"); err != nil {
		return fmt.Errorf("noting the sandbox's branches under %s: %w", r.Prefix(), err)
	}
	return nil
}
