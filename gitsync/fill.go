package gitsync

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/archive"
	"github.com/docker-ralph/docker-ralph/gitsync/gitconfig"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/index"
	"github.com/docker-ralph/docker-ralph/gitsync/objectdirs"
)

// Fill writes the sandbox's git directory as a tar archive, and saves the initial state.
// The user's branch is checked out; the index is the user's without staged changes.
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
	branch, err := r.git.Branch(ctx)
	if err != nil {
		return err
	}
	if r.clone {
		return r.fillClone(ctx, a, branch)
	}
	refs, _, err := r.git.Refs(ctx, r.base())
	if err != nil {
		return err
	}
	head, tip := "ref: refs/heads/"+branch, refs["refs/heads/"+branch]
	if branch == "" { // only agents need a branch
		if tip, err = r.git.Resolve(ctx, "HEAD"); err != nil {
			return err
		}
		head = tip
	}
	// The state is saved before a command can run in the sandbox.
	if err := r.setBase(ctx, tip); err != nil {
		return err
	}
	was, err := r.readState()
	if err != nil {
		return err
	}
	if err := r.save(state{Branch: branch, Head: strings.TrimPrefix(head, "ref: "), Synced: tip, Tips: refs, Pushed: refs, Masked: was.Masked}); err != nil {
		return err
	}
	if err := r.fillFiles(ctx, a, branch, refs); err != nil {
		return err
	}
	a.File("HEAD", []byte(head+"\n"))
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

// fillFiles writes everything but HEAD; without refs, it omits the index too.
func (r *Repo) fillFiles(ctx context.Context, a *archive.Archive, branch string, refs map[string]string) error {
	for _, dir := range []string{"", "refs/", "refs/heads/", "refs/tags/", "objects/", "objects/pack/", "objects/info/", "info/", "hooks/"} {
		a.Dir(dir)
	}
	if !r.clone {
		dirs, err := objectdirs.Find(r.git.CommonDir)
		if err != nil {
			return err
		}
		a.File("objects/info/alternates", []byte(dirs[0].Target+"\n"))
	}
	config, err := r.git.Config(ctx)
	if err != nil {
		return err
	}
	if refs != nil && !r.clone {
		var packed strings.Builder
		for _, name := range slices.Sorted(maps.Keys(refs)) {
			_, _ = fmt.Fprintf(&packed, "%s %s\n", refs[name], name)
		}
		a.File("packed-refs", []byte(packed.String()))
		tip := "HEAD"
		if branch != "" {
			tip = refs["refs/heads/"+branch]
		}
		var content []byte
		if content, err = index.Initial(ctx, r.git, config, tip); err != nil {
			return err
		}
		a.File("index", content)
	}
	a.File("config", []byte(gitconfig.Sanitize(config, branch)))
	a.File("description", []byte("The sandbox's private git directory; its commits go to the repository outside.\n"))
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

// excludes returns the user's lists of ignored files.
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
	return lines, nil
}
