package privategit

import (
	"context"
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
	// Held says that some of the sandbox's commits have been held back before.
	Held bool
}

// admit asks the gate about those commits that no ref of the user's repository
// leads to. They are in a pack, or came unnamed with an earlier one; pack is empty
// if none has come now.
func (r *Repo) admit(ctx context.Context, st *state, pack string, tips []string) (err error) {
	if r.gate == nil {
		return nil
	}
	g := r.git
	if pack != "" {
		quarantine, err := r.quarantine()
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(quarantine) }()
		g = r.git.with("GIT_OBJECT_DIRECTORY=" + quarantine)
		if err := r.unpack(ctx, g, pack, tips); err != nil {
			return err
		}
	}
	if err := r.onlyCommits(ctx, g, tips); err != nil {
		return err
	}
	out, err := g.run(ctx, strings.NewReader(strings.Join(tips, "\n")+"\n"), "rev-list", "--reverse", "--topo-order", "--stdin", "--not", "--all")
	if err != nil {
		return fmt.Errorf("listing the new commits of the sandbox %s: %w", r.name, err)
	}
	in := Incoming{git: g, Commits: strings.Fields(string(out)), Held: st.Held}
	pass := true
	if len(in.Commits) > 0 {
		if pass, err = r.gate(ctx, in); err != nil {
			return err
		}
	}
	if st.Held == pass {
		st.Held = !pass
		if err := r.save(*st); err != nil {
			return err
		}
	}
	if !pass {
		return &HeldError{Sandbox: r.name}
	}
	return nil
}

// onlyCommits refuses refs to anything else: no new commit would tell what is in it.
func (r *Repo) onlyCommits(ctx context.Context, g git, tips []string) error {
	if len(tips) == 0 {
		return nil
	}
	out, err := g.run(ctx, strings.NewReader(strings.Join(tips, "\n")+"\n"), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return fmt.Errorf("looking at what the sandbox %s has: %w", r.name, err)
	}
	for line := range strings.Lines(string(out)) {
		if oid, kind, _ := strings.Cut(strings.TrimSpace(line), " "); kind != "commit" {
			return fmt.Errorf("the commits of the sandbox %s were not taken: %s, which a branch of it leads to, is no commit: have the branch removed in the sandbox", r.name, shorten(oid))
		}
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
