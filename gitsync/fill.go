package gitsync

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// archive writes the files of a git directory.
type archive struct {
	w        *tar.Writer
	uid, gid int
	err      error
}

func (a *archive) dir(name string) { a.entry(name, tar.TypeDir, 0o755, nil) }

func (a *archive) file(name string, content []byte) { a.entry(name, tar.TypeReg, 0o644, content) }

// optional writes a file unless there is nothing in it.
func (a *archive) optional(name string, content []byte) {
	if len(content) > 0 {
		a.file(name, content)
	}
}

func (a *archive) entry(name string, kind byte, mode int64, content []byte) {
	if a.err != nil {
		return
	}
	name = path.Join(path.Base(Folder), name)
	if kind == tar.TypeDir {
		name += "/"
	}
	a.err = a.w.WriteHeader(&tar.Header{
		Name: name, Typeflag: kind, Mode: mode, Size: int64(len(content)),
		Uid: a.uid, Gid: a.gid, ModTime: time.Now(), Format: tar.FormatPAX,
	})
	if a.err == nil {
		_, a.err = a.w.Write(content)
	}
}

// Fill writes the sandbox's git directory as a tar archive, and notes what it
// begins with. The user's branch is the one that is checked out; the index is
// the user's without what is staged, which stays the user's alone.
func (r *Repo) Fill(ctx context.Context, user string, w io.Writer) error {
	own, unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	a := &archive{w: tar.NewWriter(w)}
	if a.uid, a.gid, err = numbers(user); err != nil {
		return err
	}
	branch, err := own.git.branch(ctx)
	if err != nil {
		return err
	}
	head := "ref: refs/heads/" + branch
	if branch == "" { // a branch is needed only when an agent begins
		if head, err = own.git.resolve(ctx, "HEAD"); err != nil {
			return err
		}
	}
	refs, err := own.git.refs(ctx)
	if err != nil {
		return err
	}
	// Noted before anything is there to be run in.
	tip := refs["refs/heads/"+branch]
	if branch == "" {
		tip = head
	}
	if err := own.setBase(ctx, tip); err != nil {
		return err
	}
	was, err := readState(statePath(r.stateDir, r.name))
	if err != nil {
		return err
	}
	if err := own.save(state{Branch: branch, Head: strings.TrimPrefix(head, "ref: "), Synced: tip, Tips: refs, Given: refs, Hidden: was.Hidden}); err != nil {
		return err
	}
	if err := own.fillFiles(ctx, a, branch, refs); err != nil {
		return err
	}
	a.file("HEAD", []byte(head+"\n"))
	return a.close()
}

func (a *archive) close() error {
	if a.err == nil {
		a.err = a.w.Close()
	}
	return a.err
}

func numbers(user string) (uid, gid int, err error) {
	u, g, _ := strings.Cut(user, ":")
	if uid, err = strconv.Atoi(u); err == nil {
		gid, err = strconv.Atoi(g)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("the sandbox's user %q is no pair of numbers: %w", user, err)
	}
	return uid, gid, nil
}

// setBase keeps the commit that the sandbox borrows from being pruned.
func (r *Repo) setBase(ctx context.Context, commit string) error {
	args := []string{"update-ref", r.base(), commit}
	if commit == "" {
		args = []string{"update-ref", "-d", r.base()}
	}
	if _, err := r.git.run(ctx, nil, args...); err != nil {
		return fmt.Errorf("noting what the sandbox begins with: %w", err)
	}
	return nil
}

// fillFiles writes everything but HEAD. Without refs, it leaves out an index too.
func (r *Repo) fillFiles(ctx context.Context, a *archive, branch string, refs map[string]string) error {
	for _, dir := range []string{".", "refs", "refs/heads", "refs/tags", "objects", "objects/pack", "objects/info", "info", "hooks"} {
		a.dir(dir)
	}
	borrowed, err := objects(r.commonDir)
	if err != nil {
		return err
	}
	a.file("objects/info/alternates", []byte(borrowed[0].Target+"\n"))

	all, err := r.readConfig(ctx)
	if err != nil {
		return err
	}
	if refs != nil {
		var packed strings.Builder
		for _, name := range slices.Sorted(maps.Keys(refs)) {
			_, _ = fmt.Fprintf(&packed, "%s %s\n", refs[name], name)
		}
		a.file("packed-refs", []byte(packed.String()))
		tip := "HEAD"
		if branch != "" {
			tip = refs["refs/heads/"+branch]
		}
		var index []byte
		if index, err = r.freshIndex(ctx, all, tip); err != nil {
			return err
		}
		a.file("index", index)
	}
	a.file("config", []byte(cleanConfig(all, branch)))
	a.file("description", []byte("The sandbox's own git directory; its commits go to the repository outside.\n"))
	return r.fillInfo(a, all)
}

// fillInfo writes what decides which files git ignores and checks out.
func (r *Repo) fillInfo(a *archive, all []setting) error {
	exclude, err := r.excludes(all)
	if err != nil {
		return err
	}
	a.optional("info/exclude", exclude)
	for name, path := range map[string]string{
		"info/attributes":      filepath.Join(r.commonDir, "info", "attributes"),
		"info/sparse-checkout": filepath.Join(r.gitDir, "info", "sparse-checkout"),
		"shallow":              filepath.Join(r.commonDir, "shallow"),
	} {
		content, err := readSmall(path)
		if err != nil {
			return err
		}
		a.optional(name, content)
	}
	return nil
}

// excludes are the user's own lists of ignored files.
func (r *Repo) excludes(all []setting) (lines []byte, err error) {
	for _, path := range []string{globalExcludes(all), filepath.Join(r.commonDir, "info", "exclude")} {
		content, err := readSmall(path)
		if err != nil {
			return nil, err
		}
		if len(content) > 0 {
			lines = append(append(lines, content...), '\n')
		}
	}
	return lines, nil
}

// globalExcludes is where the user's own list of ignored files is.
func globalExcludes(all []setting) string {
	home, _ := os.UserHomeDir()
	if path := last(all, "core", "excludesfile"); path != "" {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(home, rest)
		}
		return path
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "git", "ignore")
	}
	return filepath.Join(home, ".config", "git", "ignore")
}
