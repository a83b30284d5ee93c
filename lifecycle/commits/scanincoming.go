package commits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/scopes"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// modeFor returns the mode of the scan of a sandbox's new commits. What a killed command with a
// scan has left there is scanned whoever fetches it.
func (i *Scan) modeFor(name string) string {
	if i.Mode == "" && gitsync.Gated(i.Host.StateDir, name) {
		return CredScanBlock
	}
	return i.Mode
}

// Incoming scans new commits of a sandbox before they are fetched; nil without a scan.
func (i *Scan) Incoming(name string) gitsync.Gate {
	if i == nil || i.modeFor(name) == "" {
		return nil
	}
	return func(ctx context.Context, in gitsync.Incoming) (bool, error) {
		i.Host.Report("Scanning the sandbox's new commits for secrets")
		places, err := i.commits(ctx, name, in)
		if i.missing(err, "the sandbox's new commits were") {
			return true, nil
		}
		if err != nil || len(places) == 0 {
			return err == nil, unscanned(err)
		}
		i.Host.Report(describePlaces("possible secrets in the sandbox's new commits", places))
		switch {
		case i.Mode == CredScanWarn:
			return true, nil
		case i.Host.Confirm == nil:
			return false, nil
		}
		return i.Host.Confirm(ctx, "They would come into your repository. Fetch them?")
	}
}

// incomingAside is Incoming while an agent uses the terminal: it holds commits with findings
// back until they can be reported.
func (i *Scan) incomingAside(name string) gitsync.Gate {
	if i == nil || i.modeFor(name) == "" {
		return nil
	}
	var held []string
	return func(ctx context.Context, in gitsync.Incoming) (bool, error) {
		if i.absent != "" {
			return true, nil
		}
		if slices.Equal(in.Commits, held) {
			return false, nil
		}
		places, err := i.commits(ctx, name, in)
		if err == nil && len(places) > 0 {
			held = in.Commits
		}
		return err == nil && len(places) == 0, err
	}
}

// incomingOfRun is Incoming for the end of a loop's run: what is held back is told the loop.
func (i *Scan) incomingOfRun(name string) gitsync.Gate {
	if i == nil || i.modeFor(name) == "" {
		return nil
	}
	return func(ctx context.Context, in gitsync.Incoming) (bool, error) {
		places, err := i.commits(ctx, name, in)
		switch {
		case i.missing(err, "the sandbox's new commits were"):
			return true, nil
		case err != nil || len(places) == 0:
			return err == nil, unscanned(err)
		case i.Mode == CredScanWarn:
			i.Host.Report(describePlaces("possible secrets in the sandbox's new commits", places))
			return true, nil
		}
		return false, &gitsync.HeldError{Sandbox: name, Places: places[:min(len(places), findingsMax)]}
	}
}

// commits returns the findings in new commits.
func (i *Scan) commits(ctx context.Context, name string, in gitsync.Incoming) (places []string, err error) {
	dir := scopes.Path(i.Host.StateDir, name, "git", "incoming")
	err = os.RemoveAll(dir) // of a killed command
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil { // regardless of the umask; the parent directory is private
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the sandbox's changes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files, err := in.Write(ctx, dir)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	findings, err := i.directory(ctx, dir)
	for _, f := range findings {
		added, known := files[f.File]
		if !known {
			return nil, fmt.Errorf("the scanner reports %q, which was not scanned", f.File)
		}
		places = append(places, fmt.Sprintf("%.10s %s:%d: %s", added.Commit, host.Quote(added.Path), added.Line(f.Line), f.Rule))
	}
	return places, err
}

// isHeld reports whether commits were held back.
func isHeld(err error) bool {
	_, held := errors.AsType[*gitsync.HeldError](err)
	return held
}

// heldHint adds the remedies for commits that were held back.
func heldHint(sb lifecycle.Sandbox, err error) error {
	if !isHeld(err) {
		return err
	}
	err = hint.Wrap(err, "%s", DiscardHint(sb.Name))
	return hint.Wrap(err, "they are in the sandbox only: fetch them as they are with %q", "docker ralph --cred-scan=warn shell -- true")
}
