package hostgit

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Submodule is the mode of a submodule in a tree or an index.
const Submodule = "160000"

// Other modes there.
const (
	link       = "120000"
	executable = "100755"
)

var objectID = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// IsObjectID reports whether a text is the full name of an object.
func IsObjectID(text string) bool { return objectID().MatchString(text) }

// Entry is an entry of the index.
type Entry struct {
	Tag       byte // of git ls-files -v
	Mode, OID string
	Stage     string
	Path      string
}

// Index lists the user's index, in its order.
func (g Git) Index(ctx context.Context) ([]Entry, error) {
	out, err := g.Output(ctx, nil, "ls-files", "-z", "-s", "-v")
	if err != nil {
		return nil, fmt.Errorf("reading the index: %w", err)
	}
	lines := splitNull(out)
	entries := make([]Entry, 0, len(lines))
	for _, line := range lines {
		info, path, _ := strings.Cut(line, "\t")
		f := strings.Fields(info)
		if len(f) != 4 {
			return nil, fmt.Errorf("reading the index: unexpected line %q", line)
		}
		entries = append(entries, Entry{Tag: f[0][0], Mode: f[1], OID: f[2], Stage: f[3], Path: path})
	}
	return entries, nil
}

// Change is the change of a path between two commits.
type Change struct {
	Path             string
	OldMode, NewMode string
	OldID, NewID     string
}

// Added reports whether the path is new.
func (c Change) Added() bool { return c.OldMode == "000000" }

// Deleted reports whether the path is removed.
func (c Change) Deleted() bool { return c.NewMode == "000000" }

// Changes compares two commits; an empty one has no files.
func (g Git) Changes(ctx context.Context, from, to string) ([]Change, error) {
	if from == "" {
		from = EmptyTree(len(to))
	}
	out, err := g.Output(ctx, nil, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--ignore-submodules=none", from, to)
	if err != nil {
		return nil, fmt.Errorf("comparing commits: %w", err)
	}
	fields := splitNull(out)
	var all []Change
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			return nil, fmt.Errorf("comparing commits: unexpected line %q", fields[i])
		}
		all = append(all, Change{Path: fields[i+1], OldMode: f[0], NewMode: f[1], OldID: f[2], NewID: f[3]})
	}
	return all, nil
}

// EmptyTree is the name of the tree without files, by the length of object names.
func EmptyTree(format int) string {
	if format == 64 {
		return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}
