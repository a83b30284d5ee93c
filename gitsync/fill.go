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

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/gitconfig"
	"github.com/docker-ralph/docker-ralph/gitsync/objectdirs"
)

// archive writes the files of a git directory.
type archive struct {
	w        *tar.Writer
	uid, gid int
	err      error
}

func (a *archive) dir(name string) { a.entry(name, tar.TypeDir, 0o755, nil) }

func (a *archive) file(name string, content []byte) { a.entry(name, tar.TypeReg, 0o644, content) }

func (a *archive) entry(name string, kind byte, mode int64, content []byte) {
	if a.err != nil {
		return
	}
	a.err = a.w.WriteHeader(a.header(path.Base(Folder)+"/"+name, kind, mode, int64(len(content))))
	if a.err == nil {
		_, a.err = a.w.Write(content)
	}
}

// directory writes a directory beside the git directory.
func (a *archive) directory(name string) {
	if a.err == nil {
		a.err = a.w.WriteHeader(a.header(name+"/", tar.TypeDir, 0o755, 0))
	}
}

func (a *archive) header(name string, kind byte, mode, size int64) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: size, Uid: a.uid, Gid: a.gid, ModTime: time.Now(), Format: tar.FormatPAX}
}

func (a *archive) close() error {
	if a.err == nil {
		a.err = a.w.Close()
	}
	return a.err
}

// Fill writes the sandbox's git directory as a tar archive, and saves the initial state.
// The user's branch is checked out; the index is the user's without staged changes.
func (r *Repo) Fill(ctx context.Context, user string, w io.Writer) error {
	r, unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	a := &archive{w: tar.NewWriter(w)}
	if a.uid, a.gid, err = parseUser(user); err != nil {
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
	a.file("HEAD", []byte(head+"\n"))
	return a.close()
}

func parseUser(user string) (uid, gid int, err error) {
	u, g, _ := strings.Cut(user, ":")
	if uid, err = strconv.Atoi(u); err == nil {
		gid, err = strconv.Atoi(g)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("parsing the sandbox's user %q: %w", user, err)
	}
	return uid, gid, nil
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
func (r *Repo) fillFiles(ctx context.Context, a *archive, branch string, refs map[string]string) error {
	for _, dir := range []string{"", "refs/", "refs/heads/", "refs/tags/", "objects/", "objects/pack/", "objects/info/", "info/", "hooks/"} {
		a.dir(dir)
	}
	if !r.clone {
		dirs, err := objectdirs.Find(r.git.CommonDir)
		if err != nil {
			return err
		}
		a.file("objects/info/alternates", []byte(dirs[0].Target+"\n"))
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
		a.file("packed-refs", []byte(packed.String()))
		tip := "HEAD"
		if branch != "" {
			tip = refs["refs/heads/"+branch]
		}
		var index []byte
		if index, err = r.initialIndex(ctx, config, tip); err != nil {
			return err
		}
		a.file("index", index)
	}
	a.file("config", []byte(gitconfig.Sanitize(config, branch)))
	a.file("description", []byte("The sandbox's private git directory; its commits go to the repository outside.\n"))
	exclude, err := r.excludes(config)
	if err != nil {
		return err
	}
	a.file("info/exclude", exclude)
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
			a.file(name, content)
		}
	}
	return nil
}

// excludes returns the user's lists of ignored files.
func (r *Repo) excludes(config gitrepo.Config) (lines []byte, err error) {
	for _, path := range []string{globalExcludes(config), filepath.Join(r.git.CommonDir, "info", "exclude")} {
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

// globalExcludes is the path of the user's list of ignored files for all repositories.
func globalExcludes(config gitrepo.Config) string {
	home, _ := os.UserHomeDir()
	if path := config.Last("core", "excludesfile"); path != "" {
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

// initialIndex returns the index of a commit with the stat data of the user's index.
// Files of the user's filters are excluded from the agent's commits: the sandbox, which
// lacks the filters, would commit them unfiltered.
func (r *Repo) initialIndex(ctx context.Context, config gitrepo.Config, commit string) (content []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("preparing the sandbox's index: %w", err)
		}
	}()
	dir, err := os.MkdirTemp("", "docker-ralph-index-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "index")
	if err = r.git.Owner.Chown(dir); err != nil {
		return nil, err
	}
	if err = r.git.Owner.CopyFile(filepath.Join(r.git.GitDir, "index"), path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	g := r.git.WithoutFilters(config).With("GIT_INDEX_FILE=" + path)
	tip := ""
	if commit != "" {
		if tip, err = g.Resolve(ctx, commit); err != nil {
			return nil, err
		}
	}
	readTree := []string{"-c", "core.splitIndex=false", "-c", "core.untrackedCache=false", "-c", "index.skipHash=false", "read-tree"}
	if tip == "" {
		_, err = g.Output(ctx, nil, append(readTree, "--empty")...)
	} else if _, err = g.Output(ctx, nil, append(readTree, "-m", tip)...); err != nil {
		_, err = g.Output(ctx, nil, append(readTree, "--reset", tip)...)
	}
	if err != nil {
		return nil, err
	}
	paths, err := g.Filtered(ctx, config)
	if err == nil && len(paths) > 0 {
		_, err = g.Output(ctx, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), "update-index", "--skip-worktree", "-z", "--stdin")
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
