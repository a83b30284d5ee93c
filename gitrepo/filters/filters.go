// Package filters finds content in commits that a filter of git should have encoded, such as
// that of Git LFS, and has not.
package filters

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// Link is the mode of a submodule in a tree or an index.
const Link = "160000"

// Entry is an entry of a tree.
type Entry struct{ Mode, ID, Path string }

// regular reports whether the entry is a file that filters apply to.
func (e Entry) regular() bool { return strings.HasPrefix(e.Mode, "100") }

// Changes returns the entries that commits have, and none of their parents.
func Changes(ctx context.Context, g gitrepo.Git, commits []string) ([]Entry, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	out, err := output(ctx, g, strings.Join(commits, "\n")+"\n", "diff-tree", "--stdin", "-r", "-c", "--root", "--raw", "-z",
		"--no-commit-id", "--no-abbrev", "--no-renames", "--no-ext-diff", "--ignore-submodules=none")
	if err != nil {
		return nil, fmt.Errorf("listing the changes of commits: %w", err)
	}
	found := map[Entry]bool{}
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		// A colon, a mode and an ID for each parent, those of the commit, and the status.
		info := strings.TrimLeft(fields[i], ":")
		parents := len(fields[i]) - len(info)
		f := strings.Fields(info)
		if len(f) != 2*parents+3 {
			return nil, fmt.Errorf("listing the changes of commits: unexpected line %q", fields[i])
		}
		if e := (Entry{f[parents], f[2*parents+1], fields[i+1]}); e.Mode != "000000" {
			found[e] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Entry) int { return strings.Compare(a.Path+"\x00"+a.ID, b.Path+"\x00"+b.ID) }), nil
}

// Tree returns the entries of a commit, without directories.
func Tree(ctx context.Context, g gitrepo.Git, commit string) ([]Entry, error) {
	out, err := output(ctx, g, "", "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, fmt.Errorf("listing the files of a commit: %w", err)
	}
	var entries []Entry
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		info, name, _ := strings.Cut(line, "\t")
		if f := strings.Fields(info); len(f) == 3 {
			entries = append(entries, Entry{f[0], f[2], name})
		}
	}
	return entries, nil
}

// Raw is content that a filter has not encoded.
type Raw struct {
	Entry
	Filter string
}

// Find returns those of some entries whose content is raw, by the attributes of a commit and
// of info/attributes. The content of filters that are not known counts as raw. wanted selects
// filters.
func Find(ctx context.Context, g gitrepo.Git, commit string, entries []Entry, wanted func(filter string) bool) ([]Raw, error) {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !e.regular() })
	if len(entries) == 0 {
		return nil, nil
	}
	names, err := attributes(ctx, g, commit, entries)
	if err != nil {
		return nil, err
	}
	var raw []Raw
	for _, e := range entries {
		if name := names[e.Path]; name != "" && wanted(name) {
			raw = append(raw, Raw{e, name})
		}
	}
	return withoutEncoded(ctx, g, raw)
}

// attributes returns the filters of paths, by path. git check-attr --source is too new.
func attributes(ctx context.Context, g gitrepo.Git, commit string, entries []Entry) (map[string]string, error) {
	var paths strings.Builder
	for _, e := range entries {
		paths.WriteString(e.Path + "\x00")
	}
	g, remove, err := WithAttributes(ctx, g, commit)
	if err != nil {
		return nil, err
	}
	defer remove()
	out, err := output(ctx, g, paths.String(), "check-attr", "--cached", "-z", "--stdin", "filter")
	if err != nil {
		return nil, fmt.Errorf("reading attributes: %w", err)
	}
	names := map[string]string{}
	fields := strings.Split(out, "\x00") // path, attribute and value of each
	for i := 0; i+2 < len(fields); i += 3 {
		if value := fields[i+2]; value != "unspecified" && value != "unset" && value != "set" {
			names[fields[i]] = value
		}
	}
	return names, nil
}

// WithAttributes returns git with an index that has only the .gitattributes of a commit, and a function that removes
// the index.
func WithAttributes(ctx context.Context, g gitrepo.Git, commit string) (_ gitrepo.Git, remove func(), err error) {
	tree, err := Tree(ctx, g, commit)
	if err != nil {
		return g, nil, err
	}
	var index strings.Builder
	for _, e := range tree {
		if path.Base(e.Path) == ".gitattributes" && e.regular() {
			_, _ = fmt.Fprintf(&index, "%s %s\t%s\x00", e.Mode, e.ID, e.Path)
		}
	}
	if g, remove, err = WithIndex(ctx, g); err != nil || index.Len() == 0 {
		return g, remove, err
	}
	if _, err := output(ctx, g, index.String(), "update-index", "-z", "--add", "--index-info"); err != nil {
		remove()
		return g, nil, fmt.Errorf("reading attributes: %w", err)
	}
	return g, remove, nil
}

// WithIndex returns git with an empty index of its own, and a function that removes the index.
func WithIndex(ctx context.Context, g gitrepo.Git) (_ gitrepo.Git, remove func(), err error) {
	name, remove, err := TempIndex(ctx, g)
	if err != nil {
		return g, nil, err
	}
	g.Environ = append(slices.Clone(g.Environ), "GIT_INDEX_FILE="+filepath.ToSlash(name))
	return g, remove, nil
}

// TempIndex returns a path for an index among the objects of a repository, and a function that removes it. "git
// gc" removes the index of a killed process there, by its name, which is that of temporary objects.
func TempIndex(ctx context.Context, g gitrepo.Git) (name string, remove func(), err error) {
	objects, err := output(ctx, g, "", "rev-parse", "--git-path", "objects")
	if err != nil {
		return "", nil, fmt.Errorf("finding the objects of the repository: %w", err)
	}
	dir := strings.TrimSuffix(objects, "\n")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(g.Dir, dir)
	}
	f, err := os.CreateTemp(dir, "tmp_ralph-index-")
	if err != nil {
		return "", nil, fmt.Errorf("creating an index: %w", err)
	}
	name = f.Name()
	_ = f.Close()
	_ = os.Remove(name) // an empty file is no index
	return name, func() {
		for _, file := range []string{name, name + ".lock"} {
			_ = os.Remove(file)
		}
	}, nil
}

func output(ctx context.Context, g gitrepo.Git, stdin string, args ...string) (string, error) {
	var out strings.Builder
	err := g.Stream(ctx, strings.NewReader(stdin), &out, args...)
	return out.String(), err
}
