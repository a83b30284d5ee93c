package gitsync

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/archive"
	"github.com/docker-ralph/docker-ralph/gitsync/gitconfig"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/wire"
)

// Fill writes the clone's git directory as a tar archive, without commits, which [Repo.Push]
// sends, and saves the initial state. A clone that has lost its git directory keeps its state: what the user's repository
// has of it is restored.
func (r *Repo) Fill(ctx context.Context, user string, w io.Writer) error {
	r, unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	a, err := archive.New(w, path.Base(Folder), user)
	if err != nil {
		return err
	}
	branch, err := r.branch(ctx)
	if err != nil {
		return err
	}
	st, err := r.readState()
	if err != nil {
		return err
	}
	if len(st.Tips) > 0 {
		st.Dirty, st.Released = true, false
	} else {
		st = state{Branch: branch, Head: "refs/heads/" + branch, Tips: map[string]string{}, Pushed: map[string]string{}, Clone: true}
		st.Released = Saved(r.stateDir, r.name) // until the first command
	}
	if err := r.save(st); err != nil {
		return err
	}

	a.Beside(path.Base(wire.CloneDir))
	if err := r.fillFiles(ctx, a, branch); err != nil {
		return err
	}
	a.File("HEAD", []byte("ref: refs/heads/"+branch+"\n"))
	return a.Close()
}

// FillEmptied writes the directory of a clone's files as [Repo.Fill] does, for a clone whose git directory
// exists.
func FillEmptied(_ context.Context, user string, w io.Writer) error {
	a, err := archive.New(w, path.Base(Folder), user)
	if err != nil {
		return err
	}
	a.Beside(path.Base(wire.CloneDir))
	return a.Close()
}

// setBase protects the commit that the sandbox starts from against gc.
func (r *Repo) setBase(ctx context.Context, commit string) error {
	args := []string{"update-ref", r.base(), commit}
	if commit == "" {
		args = []string{"update-ref", "-d", r.base()}
	}
	if _, err := r.git.Output(ctx, nil, args...); err != nil {
		return fmt.Errorf("updating %s: %w", r.base(), err)
	}
	return nil
}

// fillFiles writes everything but HEAD.
func (r *Repo) fillFiles(ctx context.Context, a *archive.Archive, branch string) error {
	for _, dir := range []string{"", "refs/", "refs/heads/", "refs/tags/", "objects/", "objects/pack/", "objects/info/", "info/", "hooks/"} {
		a.Dir(dir)
	}
	config, err := r.git.Config(ctx)
	if err != nil {
		return err
	}
	a.File("config", []byte(gitconfig.Sanitize(config, branch)))
	a.File("description", []byte("A clone in a sandbox; its commits go to the repository outside.\n"))
	exclude, err := r.excludes(config)
	if err != nil {
		return err
	}
	a.File("info/exclude", exclude)
	for name, path := range map[string]string{
		"info/attributes":      filepath.Join(r.git.CommonDir, "info", "attributes"),
		"info/sparse-checkout": filepath.Join(r.git.GitDir, "info", "sparse-checkout"),
		"shallow":              filepath.Join(r.git.CommonDir, "shallow"),
	} {
		content, err := readCopied(path)
		if err != nil {
			return err
		}
		if len(content) > 0 {
			a.File(name, content)
		}
	}
	return nil
}

// agentWorktrees are where agents and their tools add worktrees, of which a commit would have a link.
const agentWorktrees = "/.worktrees/\n/.claude/worktrees/\n"

// ReportFile is what docker ralph report writes by default, where it is run. Agents do not commit it.
const ReportFile = "ralph-report.html"

// excludes returns the user's lists of ignored files, the prompts, which a clone gets without a commit, and
// what agents do not commit.
func (r *Repo) excludes(config gitrepo.Config) (lines []byte, err error) {
	for _, path := range []string{hostgit.GlobalExcludes(config), filepath.Join(r.git.CommonDir, "info", "exclude")} {
		content, err := readCopied(path)
		if err != nil {
			return nil, err
		}
		if len(content) > 0 {
			lines = append(append(lines, content...), '\n')
		}
	}
	return append(lines, "/"+promptsDir+"/\n"+agentWorktrees+ReportFile+"\n"...), nil
}
