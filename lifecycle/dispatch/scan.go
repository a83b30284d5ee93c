package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/credscan"
	"github.com/docker-ralph/docker-ralph/scope"
)

// What [Options.CredScan] can be.
const (
	CredScanBlock = "block"
	CredScanWarn  = "warn"
)

// findingsMax is how many places are shown.
const findingsMax = 20

// scan looks for credentials in the work tree before an agent sees it. Without
// a scanner that is said, and nothing is stopped.
func (h Host) scan(ctx context.Context, wt scope.Worktree, opts Options, connected func() (API, error)) error {
	if opts.CredScan == "" || opts.Command == taskCommand {
		return nil
	}
	findings, err := h.credentialsIn(ctx, wt, connected)
	if missing, ok := errors.AsType[*credscan.MissingError](err); ok {
		h.report(fmt.Sprintf("Warning: the work tree was not searched for credentials: %v", missing))
		return nil
	}
	if err != nil || len(findings) == 0 {
		return err
	}
	h.report(describeFindings(findings))
	const remedy = "take them out of the work tree, or let the agent see them with --cred-scan=warn"
	switch {
	case opts.CredScan == CredScanWarn:
		return nil
	case h.Confirm == nil:
		return errors.New("the agent would see what may be credentials: " + remedy)
	}
	yes, err := h.Confirm(ctx, "The agent would see them. Go on?")
	if err == nil && !yes {
		err = errors.New("nothing was started: " + remedy)
	}
	return err
}

func (h Host) credentialsIn(ctx context.Context, wt scope.Worktree, connected func() (API, error)) ([]credscan.Finding, error) {
	api, err := connected()
	if err != nil {
		return nil, &credscan.MissingError{Err: err}
	}
	user, err := invokingUser(wt.Root)
	if err != nil {
		return nil, err
	}
	name, err := container.RunsAs(ctx, api, user)
	if err != nil {
		return nil, err
	}
	h.report("Looking for credentials in the work tree")
	scanner := credscan.Scanner{API: api, User: name, Pull: func(ctx context.Context, image string) error {
		_, err := h.builder(api).Pull(ctx, image, "")
		return err
	}}
	return scanner.Tree(ctx, wt.Root)
}

// describeFindings lists the places, one a line.
func describeFindings(findings []credscan.Finding) string {
	var text strings.Builder
	text.WriteString("Warning: what may be credentials in the work tree:")
	for i, f := range findings {
		if i == findingsMax {
			fmt.Fprintf(&text, "\n  and %d more", len(findings)-i)
			break
		}
		fmt.Fprintf(&text, "\n  %s:%d: %s", f.File, f.Line, f.Rule)
	}
	return text.String()
}
