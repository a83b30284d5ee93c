package commits

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/credential/secretscan"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// Modes of a scan.
const (
	CredScanBlock = "block"
	CredScanWarn  = "warn"
)

// findingsMax limits the findings that are shown.
const findingsMax = 20

// Scan scans for secrets during one command.
type Scan struct {
	Host      host.Host
	Root      string // of the worktree
	Mode      string // [CredScanBlock] or [CredScanWarn]; empty for no scan
	Connected func() (host.API, error)
	absent    string // what was reported as not scanned last, because the scanner is missing
}

// Worktree scans the worktree for secrets before an agent sees it. Without a scan the command
// fails, unless the mode is [CredScanWarn].
func (i *Scan) Worktree(ctx context.Context) error {
	if i.Mode == "" {
		return nil
	}
	i.Host.Report("Scanning the worktree for secrets")
	findings, err := i.directory(ctx, i.Root)
	if i.missing(err, "the worktree was") {
		return nil
	}
	if err != nil || len(findings) == 0 {
		return unscanned(err)
	}
	var places []string
	for _, f := range findings {
		places = append(places, fmt.Sprintf("%s:%d: %s", host.Quote(f.File), f.Line, f.Rule))
	}
	i.Host.Report(describePlaces("possible secrets in the worktree", places))
	const remedy = "remove them from the worktree, or let the agent see them with --cred-scan=warn"
	switch {
	case i.Mode == CredScanWarn:
		return nil
	case i.Host.Confirm == nil:
		return hint.Wrap(errors.New("possible secrets in the worktree"), remedy)
	}
	yes, err := i.Host.Confirm(ctx, "The agent would see them. Continue?")
	if err == nil && !yes {
		err = hint.Wrap(errors.New("canceled: possible secrets in the worktree"), remedy)
	}
	return err
}

// missing reports whether the scanner is missing in the mode [CredScanWarn], and warns once for what is not scanned.
func (i *Scan) missing(err error, what string) bool {
	missing, ok := errors.AsType[*secretscan.MissingError](err)
	if !ok || i.Mode != CredScanWarn {
		return false
	}
	if i.absent != what {
		i.absent = what
		i.Host.Report(fmt.Sprintf("Warning: %s not scanned for secrets: %v", what, missing))
	}
	return true
}

// unscanned adds the remedy for a missing scanner.
func unscanned(err error) error {
	if _, missing := errors.AsType[*secretscan.MissingError](err); missing {
		return hint.Wrap(err, "pull the scanner with %q, or continue without a scan with --cred-scan=warn", "docker pull "+secretscan.Image)
	}
	return err
}

// directory scans a directory of the host.
func (i *Scan) directory(ctx context.Context, dir string) ([]secretscan.Finding, error) {
	api, err := i.Connected()
	if err != nil {
		return nil, &secretscan.MissingError{Err: err}
	}
	user, err := host.InvokingUser(i.Root)
	if err != nil {
		return nil, err
	}
	name, err := container.RunsAs(ctx, api, user)
	if err != nil {
		return nil, err
	}
	scanner := secretscan.Scanner{API: api, User: name, Copy: !engine.Local(api.DaemonHost()), Pull: func(ctx context.Context, image string) error {
		_, err := i.Host.Builder(api).Pull(ctx, image, "")
		return err
	}}
	return scanner.Tree(ctx, dir)
}

// describePlaces lists the first findings, one per line.
func describePlaces(what string, places []string) string {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "Warning: %s:", what)
	for i, place := range places {
		if i == findingsMax {
			_, _ = fmt.Fprintf(&text, "\n  and %d more", len(places)-i)
			break
		}
		_, _ = fmt.Fprintf(&text, "\n  %s", place)
	}
	return text.String()
}
