package gitsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/additions"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// Gate decides whether new commits of the sandbox may enter the user's repository.
// Their objects are verified and in quarantine.
type Gate func(ctx context.Context, in Incoming) (pass bool, err error)

// WithGate returns the repository with a gate for commits. Commits that a gate has held
// back need a gate later, too.
func (r *Repo) WithGate(gate Gate) *Repo {
	with := *r
	with.gate = gate
	return &with
}

// HeldError says that a gate has held back the new commits of a sandbox.
type HeldError struct {
	Sandbox string
	Places  []string // of what a gate has found; a gate that fills it in returns the error itself
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the new commits of sandbox %s were held back: they may contain secrets", e.Sandbox)
}

// Incoming are new commits in quarantine.
type Incoming struct {
	git     hostgit.Git
	Commits []string // parents first
}

// Write writes what the commits add into an empty directory: see [additions.Write].
func (in Incoming) Write(ctx context.Context, dir string) (map[string]additions.File, error) {
	return additions.Write(ctx, in.git.Git, in.Commits, dir)
}

// admit adds a pack of the sandbox to the user's repository; pack is empty if the
// objects are there already. Objects that are invalid, or held back by the gate, never
// leave quarantine.
func (r *Repo) admit(ctx context.Context, st *state, pack string, tips []string) error {
	g, quarantine := r.git, ""
	if pack != "" {
		var err error
		if quarantine, err = r.quarantine(); err != nil {
			return fmt.Errorf("creating a quarantine: %w", err)
		}
		defer func() { _ = os.RemoveAll(quarantine) }()
		g = r.git.With("GIT_OBJECT_DIRECTORY=" + quarantine)
		if err := r.unpack(ctx, g, pack); err != nil {
			return err
		}
	}
	if err := r.verify(ctx, g, tips); err != nil {
		return err
	}
	if err := r.passGate(ctx, st, g, tips); err != nil || quarantine == "" {
		return err
	}
	if err := r.migrate(quarantine); err != nil {
		return fmt.Errorf("storing the sandbox's commits: %w", err)
	}
	return nil
}

// passGate returns a [HeldError] if the gate does not let new commits pass.
func (r *Repo) passGate(ctx context.Context, st *state, g hostgit.Git, tips []string) error {
	if r.gate == nil {
		return nil
	}
	out, err := g.Output(ctx, strings.NewReader(strings.Join(tips, "\n")+"\n"), "rev-list", "--reverse", "--topo-order", "--stdin", "--not", "--all")
	if err != nil {
		return fmt.Errorf("listing the new commits of sandbox %s: %w", r.name, err)
	}
	in := Incoming{git: g, Commits: strings.Fields(string(out))}
	pass := true
	if len(in.Commits) > 0 {
		if pass, err = r.gate(ctx, in); err != nil && ctx.Err() != nil {
			return err
		}
		pass = pass && err == nil
	}
	if st.Held == pass { // also after a failure, so that a command without a gate fetches nothing
		st.Held = !pass
		if saveErr := r.save(*st); saveErr != nil {
			return errors.Join(err, saveErr)
		}
	}
	if err == nil && !pass {
		return &HeldError{Sandbox: r.name}
	}
	return err
}

// quarantine creates an object directory that the repository does not read. git removes
// leftovers of this name.
func (r *Repo) quarantine() (string, error) {
	dir, err := os.MkdirTemp(filepath.Join(r.git.CommonDir, "objects"), "tmp_objdir-ralph-")
	if err != nil {
		return "", err
	}
	info := filepath.Join(dir, "info")
	alternates := filepath.Join(info, "alternates")
	err = os.Mkdir(info, 0o700)
	if err == nil {
		err = os.WriteFile(alternates, []byte("..\n"), 0o600)
	}
	for _, path := range []string{dir, info, alternates} {
		if err == nil {
			err = r.git.Owner.Chown(path)
		}
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}
