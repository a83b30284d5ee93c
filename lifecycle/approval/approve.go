// Package approval asks the user before a repository gets what it may not decide
// itself: privileged settings, a Dockerfile, a nested repository.
package approval

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// approval is what a repository requests and the user approves by its digest.
type approval struct {
	root   string // of the worktree
	digest string
	wider  string            // digest of a request for more, whose approval counts as well; may be empty
	files  map[string]string // hashes of the files that the digest covers

	subject  string   // what is not approved, e.g. a path
	change   string   // since the last approval; may be empty
	details  []string // lines of the question
	question string
}

func (a approval) describe() string {
	return a.subject + " is not approved:\n  " + strings.Join(a.details, "\n  ") + "\n"
}

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

// ApproveBuild asks the user to approve a repository's Dockerfile and marks the
// project as approved.
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

// Network access of build steps, for the question.
const (
	reachDefault = "Its steps run as root in the engine's builder, outside of the sandbox's network policy:\n" +
		"  they can reach the internet, the networks of this machine and cloud metadata addresses."
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

type fileChange struct{ kind, path string }

// compareFiles lists new, changed and removed files.
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

// maxListedChanges limits the files in a question.
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
