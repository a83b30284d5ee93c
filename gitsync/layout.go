package gitsync

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"
)

// coverPath is the file that lies over the .git file of a linked work tree.
func coverPath(stateDir, name string) string {
	return filepath.Join(stateDir, "git", name+".dotgit")
}

// Layout says what the sandbox is to see instead of the user's git directory.
func (r *Repo) Layout(ctx context.Context) (*Layout, error) {
	own := &Layout{
		Folder: Folder,
		Fill:   func(ctx context.Context, user string, w io.Writer) error { return r.Fill(ctx, user, w) },
	}
	err := r.checkAlternates()
	if err != nil {
		return nil, err
	}
	if own.Borrowed, err = objects(r.commonDir); err != nil {
		return nil, err
	}
	for i := range own.Borrowed {
		if own.Borrowed[i].Source, err = objectFolder(own.Borrowed[i].Source); err != nil {
			return nil, err
		}
	}
	dotGit := filepath.Join(r.root, ".git")
	info, err := os.Lstat(dotGit)
	if err != nil {
		return nil, fmt.Errorf("reading the repository: %w", err)
	}
	same := append([]string{dotGit}, spellings(dotGit)...)
	if info.IsDir() {
		own.Over = same
	} else {
		own.Cover, own.Covered = coverPath(r.stateDir, r.name), same
		if err := writeCover(own.Cover); err != nil {
			return nil, err
		}
	}
	if own.Hidden, err = r.hidden(ctx, dotGit); err != nil {
		return nil, err
	}
	own.Pinned = pinned(r.root, own.Hidden)
	return own, r.noteHidden(ctx, own.Hidden)
}

func writeCover(path string) error {
	content := []byte("gitdir: " + Folder + "\n")
	if was, err := os.ReadFile(path); err == nil && string(was) == string(content) {
		return nil // the file that a sandbox has mounted stays the same one
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = atomicwriter.WriteFile(path, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("preparing the sandbox's git directory: %w", err)
	}
	return nil
}

// worktrees is where docker ralph puts linked work trees, below the main one.
const worktrees = ".worktrees"

// hidden returns the folders below the work tree that lead to the user's git
// directory by another way than .git: the user's other work trees, whose .git
// files an agent could change, and git directories beside it. The folder for
// work trees is always among them, so that more can come.
func (r *Repo) hidden(ctx context.Context, dotGit string) ([]string, error) {
	var hidden []string
	all, err := r.nested(ctx, dotGit)
	if err != nil {
		return nil, err
	}
	if r.gitDir == r.commonDir {
		folder := filepath.Join(r.root, worktrees)
		err := os.Mkdir(folder, 0o755)
		if err == nil {
			err = r.git.owner.give(folder)
		}
		if info, statErr := os.Lstat(folder); statErr == nil && info.IsDir() && (err == nil || os.IsExist(err)) {
			hidden = append(hidden, folder)
		}
	}
	for _, path := range all {
		if covered(path, hidden) {
			continue
		}
		if err := r.checkWay(path); err != nil {
			return nil, err
		}
		hidden = append(hidden, path)
	}
	return hidden, nil
}

// nested returns the git directories and work trees of the repository that are
// below this work tree.
func (r *Repo) nested(ctx context.Context, dotGit string) ([]string, error) {
	out, err := r.git.run(ctx, nil, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, fmt.Errorf("listing the work trees: %w", err)
	}
	all := []string{r.gitDir, r.commonDir}
	for line := range strings.SplitSeq(string(out), "\x00") {
		if path, ok := strings.CutPrefix(line, "worktree "); ok {
			all = append(all, filepath.FromSlash(path))
		}
	}
	var nested []string
	for _, path := range all {
		rel, err := filepath.Rel(r.root, path)
		if err != nil || rel == "." || path == dotGit || !filepath.IsLocal(rel) {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			nested = append(nested, path)
		}
	}
	return nested, nil
}

// covered reports whether a path is one of the folders, or inside.
func covered(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
	})
}

// checkWay refuses a path below the work tree that has links in it: an agent
// could have made them, and something else would be mounted.
func (r *Repo) checkWay(path string) error {
	for dir := path; dir != r.root; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("the work tree %s is inside this one, but %s is no folder: remove the link, or the work tree (git worktree prune)", path, dir)
		}
	}
	return nil
}

// checkHidden makes sure that the sandbox sees none of the user's other work
// trees.
func (r *Repo) checkHidden(ctx context.Context, st state) error {
	all, err := r.nested(ctx, filepath.Join(r.root, ".git"))
	if err != nil {
		return err
	}
	for _, path := range all {
		if !covered(path, st.Hidden) {
			return fmt.Errorf("the work tree %s is inside this one, and was added after the sandbox was made, which could change its .git file: run with --recreate, or move it (git worktree move)", path)
		}
	}
	return nil
}

// noteHidden notes what the sandbox that is being made will not see.
func (r *Repo) noteHidden(ctx context.Context, hidden []string) error {
	own, unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := readState(statePath(r.stateDir, r.name))
	if err != nil {
		return err
	}
	st.Hidden = hidden
	return own.save(st)
}

// pinned returns the folders between the work tree and others. They must not be
// renamed, or else something else could be put where the others were.
func pinned(root string, hidden []string) []string {
	var between []string
	for _, path := range hidden {
		for dir := filepath.Dir(path); dir != root; dir = filepath.Dir(dir) {
			if !slices.Contains(between, dir) {
				between = append(between, dir)
			}
		}
	}
	return between
}

// spellings returns the other spellings of .git that lead to the same file.
func spellings(dotGit string) []string {
	info, err := os.Lstat(dotGit)
	if err != nil {
		return nil
	}
	var same []string
	for _, name := range []string{".giT", ".gIt", ".gIT", ".Git", ".GiT", ".GIt", ".GIT"} {
		path := filepath.Join(filepath.Dir(dotGit), name)
		if other, err := os.Lstat(path); err == nil && os.SameFile(info, other) {
			same = append(same, path)
		}
	}
	return same
}
