package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
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

// commitID is the id of a commit, which a log may follow by its number of commits.
var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})(~[1-9][0-9]{0,3})?$`)

// diffOf compares two commits in the user's repository. The ids are from a log and untrusted: it
// refuses commits that are neither on the branch nor fetched from its sandbox. git runs in the git
// directory, outside of the worktree that an agent can write.
func diffOf(ctx context.Context, w watch.Worktree, base, head string) (diff, error) {
	if head == "" || base == head {
		return diff{}, errNoCommits
	}
	if !commitID.MatchString(head) || !commitID.MatchString(base) || strings.Contains(head, "~") {
		return diff{}, errNotFetched
	}
	ctx, cancel := context.WithTimeout(ctx, diffTimeout)
	defer cancel()
	wt, err := gitrepo.Detect(ctx, w.Root, host.AnyScope)
	if err != nil {
		return diff{}, fmt.Errorf("reading the commits of the run: %w", err)
	}
	git, err := gitrepo.NewGit(wt.CommonDir)
	if err != nil {
		return diff{}, err
	}
	run := func(args ...string) (string, error) {
		return git.Run(ctx, append([]string{"--git-dir=" + wt.CommonDir}, args...)...)
	}
	refs := []string{"refs/heads/" + w.Branch}
	if w.Sandbox != nil {
		refs = append(refs, commits.FetchedRef(w.Sandbox.Name))
	} else if name, err := (gitrepo.Scope{Repo: w.Repo, Branch: w.Branch}).SandboxName(); err == nil {
		refs = append(refs, commits.FetchedRef(name))
	}
	found, err := run(append([]string{"for-each-ref", "--contains=" + head, "--count=1", "--format=found"}, refs...)...)
	if err != nil || found == "" {
		return diff{}, errNotFetched
	}
	if _, err := run("merge-base", "--is-ancestor", base, head); err != nil {
		return diff{}, errNotFetched
	}
	var text bytes.Buffer
	limited := &lifecycle.Limited{To: &text, Left: maxDiff + 1}
	err = git.Stream(ctx, nil, limited, "--git-dir="+wt.CommonDir, "diff", "--no-color", "--find-renames",
		"--end-of-options", base, head, "--")
	if err != nil {
		return diff{}, fmt.Errorf("comparing the commits of the run: %w", err)
	}
	d := diff{Base: base, Head: head, Truncated: text.Len() > maxDiff}
	text.Truncate(min(text.Len(), maxDiff))
	d.Text = termsafe.Strip(text.String())
	return d, nil
}
