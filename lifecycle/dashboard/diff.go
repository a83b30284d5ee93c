package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/watch"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	maxDiff     = 512 << 10 // bytes
	diffTimeout = 20 * time.Second
)

// diff is what a run has changed.
type diff struct {
	Base string `json:"base"`
	Head string `json:"head"`
	Text string `json:"text"`
	// Truncated says that the end is missing.
	Truncated bool `json:"truncated,omitempty"`
}

var (
	errNoCommits  = errors.New("this run has no commits")
	errNotFetched = errors.New("the commits of this run are not on the branch, nor fetched from the sandbox")
)

// diffOf compares two commits in the user's repository. The ids are from a log and untrusted.
func diffOf(ctx context.Context, w watch.Worktree, base, head string) (diff, error) {
	if head == "" || base == head {
		return diff{}, errNoCommits
	}
	ctx, cancel := context.WithTimeout(ctx, diffTimeout)
	defer cancel()
	wt, err := gitrepo.Detect(ctx, w.Root, host.AnyScope)
	if err != nil {
		return diff{}, fmt.Errorf("reading the commits of the run: %w", err)
	}
	var name string
	if w.Sandbox != nil {
		name = w.Sandbox.Name
	} else if name, err = (gitrepo.Scope{Repo: w.Repo, Branch: w.Branch}).SandboxName(); err != nil {
		return diff{}, errNotFetched
	}
	repo, err := gitsync.Open(wt, name, "")
	if err != nil {
		return diff{}, err
	}
	if !repo.HasRun(ctx, w.Branch, base, head) {
		return diff{}, errNotFetched
	}
	var text bytes.Buffer
	limited := &lifecycle.Limited{To: &text, Left: maxDiff + 1}
	err = repo.WriteDiff(ctx, limited, base, head)
	if err != nil {
		return diff{}, fmt.Errorf("comparing the commits of the run: %w", err)
	}
	d := diff{Base: base, Head: head, Truncated: text.Len() > maxDiff}
	text.Truncate(min(text.Len(), maxDiff))
	d.Text = termsafe.Strip(text.String())
	return d, nil
}
