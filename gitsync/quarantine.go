package gitsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Gate decides whether new commits of the sandbox may come into the user's
// repository. It is called during a sync, with commits whose objects are sound.
type Gate func(ctx context.Context, in Incoming) (pass bool, err error)

// Gated returns the repository with a gate that commits have to pass. What a
// gate has held back once needs one to come in, now or later.
func (r *Repo) Gated(gate Gate) *Repo {
	gated := *r
	gated.gate = gate
	return &gated
}

// HeldError says that the new commits of a sandbox were held back by a gate. They
// are in the sandbox only; nothing of them is in the user's repository.
type HeldError struct{ Sandbox string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("the new commits of the sandbox %s were held back, because they may have credentials in them", e.Sandbox)
}

// Incoming are new commits in quarantine: in a folder of objects that the
// repository does not look into.
type Incoming struct {
	git git
	// Commits are those that the user's repository has not, parents first.
	Commits []string
}

// admit takes a pack of the sandbox into the user's repository; pack is empty if no
// object has come now. Everything is unpacked in quarantine, and stays there if it
// is not sound, or if the gate does not let those commits pass that no ref of the
// repository leads to.
func (r *Repo) admit(ctx context.Context, st *state, pack string, tips []string) error {
	g, quarantine := r.git, ""
	if pack != "" {
		var err error
		if quarantine, err = r.quarantine(); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(quarantine) }()
		g = r.git.with("GIT_OBJECT_DIRECTORY=" + quarantine)
		if err := r.unpack(ctx, g, pack); err != nil {
			return err
		}
	}
	if err := r.complete(ctx, g, tips); err != nil {
		return err
	}
	if err := r.askGate(ctx, st, g, tips); err != nil || quarantine == "" {
		return err
	}
	return r.migrate(quarantine)
}

// askGate asks the gate, if there is one, about new commits.
func (r *Repo) askGate(ctx context.Context, st *state, g git, tips []string) error {
	if r.gate == nil {
		return nil
	}
	out, err := g.run(ctx, strings.NewReader(strings.Join(tips, "\n")+"\n"), "rev-list", "--reverse", "--topo-order", "--stdin", "--not", "--all")
	if err != nil {
		return fmt.Errorf("listing the new commits of the sandbox %s: %w", r.name, err)
	}
	in := Incoming{git: g, Commits: strings.Fields(string(out))}
	pass := true
	if len(in.Commits) > 0 {
		if pass, err = r.gate(ctx, in); err != nil && ctx.Err() != nil {
			return err
		}
		// No later command without a gate takes what this one could not look at.
		pass = pass && err == nil
	}
	if st.Held == pass {
		st.Held = !pass
		if saveErr := r.save(*st); saveErr != nil {
			return errors.Join(err, saveErr)
		}
	}
	if err != nil {
		return err
	}
	if !pass {
		return &HeldError{Sandbox: r.name}
	}
	return nil
}

// quarantine makes a folder for objects, beside those of the repository. git
// itself makes some of that name, and cleans up those that were left behind.
func (r *Repo) quarantine() (string, error) {
	dir, err := os.MkdirTemp(filepath.Join(r.commonDir, "objects"), "tmp_objdir-ralph-")
	if err != nil {
		return "", fmt.Errorf("making a place for the sandbox's commits: %w", err)
	}
	info := filepath.Join(dir, "info")
	alternates := filepath.Join(info, "alternates")
	err = os.Mkdir(info, 0o700)
	if err == nil {
		err = os.WriteFile(alternates, []byte("..\n"), 0o600)
	}
	for _, path := range []string{dir, info, alternates} {
		if err == nil {
			err = r.git.owner.give(path)
		}
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("making a place for the sandbox's commits: %w", err)
	}
	return dir, nil
}
