// Package approval asks the user before a repository gets what it may not choose
// itself: settings, a Dockerfile, a nested repository, borrowed objects.
package approval

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// approval is something that a repository asks for and gets only after the user
// has approved exactly that.
type approval struct {
	root   string // of the work tree that the approval is for
	digest string
	wider  string            // the digest of something wider whose approval counts too; empty for none
	files  map[string]string // a hash for each file that the digest covers; nil for none

	subject  string   // what is not approved, e.g. a path
	change   string   // what is new about it; or empty
	details  []string // lines of the question
	question string
}

// describe explains at length what is asked for.
func (a approval) describe() string {
	return a.subject + " is not approved:\n  " + strings.Join(a.details, "\n  ") + "\n"
}

// approved reports whether the user has approved it before.
func (a approval) approved(store config.TrustStore) (bool, error) {
	approved, err := store.Approved(a.root, a.digest)
	if err == nil && !approved && a.wider != "" {
		return store.Approved(a.root, a.wider)
	}
	return approved, err
}

// approve returns nil if a is approved, or if the user approves it now.
func approve(ctx context.Context, h host.Host, store config.TrustStore, a approval) error {
	if approved, err := a.approved(store); err != nil || approved {
		return err
	}
	if h.Confirm != nil {
		yes, err := h.Confirm(ctx, a.describe()+a.question)
		if err != nil {
			return err
		}
		if yes {
			return store.ApproveFiles(a.root, a.digest, a.files)
		}
	}
	err := fmt.Errorf("%s is not approved", a.subject)
	if a.change != "" {
		err = fmt.Errorf("%w (%s)", err, a.change)
	}
	return hint.Wrap(err, "review it, then run %q", "docker ralph trust")
}

// ApproveBuild has the user approve what a repository's own Dockerfile would
// execute. The project can be built then.
func ApproveBuild(ctx context.Context, h host.Host, p *projectimage.Project) error {
	if p == nil || p.Approved || p.Digest() == "" {
		return nil
	}
	store := config.NewTrustStore(h.StateDir)
	a, err := buildApproval(store, p)
	if err != nil {
		return err
	}
	if err := approve(ctx, h, store, a); err != nil {
		return err
	}
	p.Approved = true
	return nil
}

// What the question says about the reach of build steps.
const (
	reachDefault = "Its steps run as root in the engine's builder, outside of the sandbox's network policy:\n" +
		"  they reach the internet, the networks of this machine and cloud metadata addresses."
	reachNone = "Its steps run as root in the engine's builder, without a network."
)

func buildApproval(store config.TrustStore, p *projectimage.Project) (approval, error) {
	was, err := store.ApprovedFiles(p.Root)
	if err != nil {
		return approval{}, err
	}
	reach, wider := reachDefault, ""
	if p.NoNetwork {
		online := *p
		online.NoNetwork = false
		reach, wider = reachNone, online.Digest()
	}
	files := p.Files()
	changes := compareFiles(was, files)
	return approval{
		root: p.Root, digest: p.Digest(), wider: wider, files: files,
		subject: p.File, change: summarize(changes), details: append(changeLines(changes), reach), question: "Build it?",
	}, nil
}

// fileChange is how a file differs from what was approved last.
type fileChange struct{ kind, path string }

// compareFiles lists the files that are new, changed or removed.
func compareFiles(was, now map[string]string) []fileChange {
	var changes []fileChange
	for _, path := range slices.Sorted(maps.Keys(now)) {
		switch hash, known := was[path]; {
		case !known:
			changes = append(changes, fileChange{"new", path})
		case hash != now[path]:
			changes = append(changes, fileChange{"changed", path})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(was)) {
		if _, there := now[path]; !there {
			changes = append(changes, fileChange{"removed", path})
		}
	}
	return changes
}

// maxListedChanges is how many files are named in a question.
const maxListedChanges = 20

func changeLines(changes []fileChange) []string {
	var lines []string
	for i, c := range changes {
		if i == maxListedChanges {
			return append(lines, fmt.Sprintf("and %d more files", len(changes)-i))
		}
		lines = append(lines, fmt.Sprintf("%-8s %s", c.kind, host.Quote(filepath.FromSlash(c.path))))
	}
	return lines
}

// summarize says in a few words what has changed.
func summarize(changes []fileChange) string {
	const most = 3
	var words []string
	for i, c := range changes {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(changes)-i))
			break
		}
		words = append(words, c.kind+" "+host.Quote(filepath.FromSlash(c.path)))
	}
	return strings.Join(words, ", ")
}
