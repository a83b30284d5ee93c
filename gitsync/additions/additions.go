// Package additions writes the lines that commits add to files, for a scanner that
// reads a directory.
package additions

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// Limits in bytes. Each file counts for at least a block of a file system, and what is
// remembered of merges counts too.
const (
	maxAdded = 1 << 30
	minAdded = 4096
	spanCost = 16
	maxLine  = 1 << 20 // of a header
)

// File holds the lines that a commit adds to a file. Lines of its parents are left
// out: the user has them, or they are another new commit's.
type File struct {
	Commit, Path string
	starts       []start
}

// start is the first of consecutive lines, in the written file and in the commit's.
type start struct{ here, there int }

// Line returns the number in the commit's file of a line, both from 1.
func (f File) Line(here int) int {
	i := sort.Search(len(f.starts), func(i int) bool { return f.starts[i].here > here })
	if i == 0 {
		return here
	}
	return f.starts[i-1].there + here - f.starts[i-1].here
}

// Write writes what the commits add into an empty directory, and returns the files by
// their path there. A path ends with that of the commit, where the file system allows.
func Write(ctx context.Context, g gitrepo.Git, commits []string, dir string) (map[string]File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("writing the additions of commits: %w", err)
	}
	defer func() { _ = root.Close() }()
	pairs, merges, err := parents(ctx, g, commits)
	if err != nil {
		return nil, err
	}
	// --text, --no-ext-diff and --no-textconv override the agent's attributes. The
	// combined view of a merge obeys them regardless, and loses lines of merges with
	// 64 parents or more.
	args := []string{
		"diff-tree", "--stdin", "-r", "-p", "--root", "-U0", "--text", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color",
		"--src-prefix=a/", "--dst-prefix=b/", "--full-index",
	}
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := g.Stream(ctx, strings.NewReader(pairs), pw, args...)
		_ = pw.CloseWithError(err)
		ended <- err
	}()
	w := &writer{root: root, left: maxAdded, merges: merges, files: map[string]File{}}
	err = readPatches(bufio.NewReaderSize(pr, maxLine), w)
	_ = pr.CloseWithError(io.ErrClosedPipe)
	if gitErr := <-ended; err == nil {
		err = gitErr
	}
	if err = errors.Join(err, w.closeFile()); err != nil {
		return nil, fmt.Errorf("writing the additions of commits: %w", err)
	}
	return w.files, nil
}

// parents returns a line for each commit with one of its parents, and how many parents
// each merge has.
func parents(ctx context.Context, g gitrepo.Git, commits []string) (pairs string, merges map[string]int, err error) {
	var out, b strings.Builder
	err = g.Stream(ctx, strings.NewReader(strings.Join(commits, "\n")+"\n"), &out, "rev-list", "--no-walk=unsorted", "--parents", "--stdin")
	if err != nil {
		return "", nil, fmt.Errorf("listing the parents of commits: %w", err)
	}
	merges = map[string]int{}
	for line := range strings.Lines(out.String()) {
		ids := strings.Fields(line)
		if len(ids) < 3 {
			b.WriteString(line)
			continue
		}
		merges[ids[0]] = len(ids) - 1
		for _, parent := range ids[1:] {
			_, _ = fmt.Fprintf(&b, "%s %s\n", ids[0], parent)
		}
	}
	return b.String(), merges, nil
}
