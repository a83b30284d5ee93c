package gitsync

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// What is written out of new commits is bounded, in bytes. Each file counts for
// at least a block of a file system, and what is remembered of merges counts too.
const (
	maxAdded = 1 << 30
	minAdded = 4096
	spanCost = 16
)

// Added is a file that holds the lines that a commit adds to a file of its own.
// Lines that its parents have are left out: the user has them already, or they
// are another new commit's.
type Added struct {
	Commit, Path string
	starts       []start
}

// start is where lines that follow one another begin, here and in the commit.
type start struct{ here, there int }

// Line returns the number in the commit's file of a line, both from 1.
func (a Added) Line(here int) int {
	i := sort.Search(len(a.starts), func(i int) bool { return a.starts[i].here > here })
	if i == 0 {
		return here
	}
	return a.starts[i-1].there + here - a.starts[i-1].here
}

// Write writes what the commits add as files below an empty folder. The keys of
// what it returns are their paths below that, with slashes: the last parts are
// those of the commit's path, unless the file system cannot have it.
func (in Incoming) Write(ctx context.Context, dir string) (map[string]Added, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("writing down what the sandbox's commits add: %w", err)
	}
	defer func() { _ = root.Close() }()
	pairs, merges, err := in.pairs(ctx)
	if err != nil {
		return nil, err
	}
	// Attributes, which an agent writes, would make a text binary, or have
	// another program show it. In its combined view of a merge git heeds them all
	// the same, and loses lines when there are 64 parents or more.
	args := []string{
		"diff-tree", "--stdin", "-r", "-p", "--root", "-U0", "--text", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color",
		"--src-prefix=a/", "--dst-prefix=b/", "--full-index",
	}
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := in.git.stream(ctx, strings.NewReader(pairs), pw, args...)
		_ = pw.CloseWithError(err)
		ended <- err
	}()
	w := &addedWriter{root: root, left: maxAdded, merges: merges, files: map[string]Added{}}
	err = readPatches(bufio.NewReaderSize(pr, 1<<16), w)
	_ = pr.CloseWithError(io.ErrClosedPipe)
	if gitErr := <-ended; err == nil {
		err = gitErr
	}
	if err = errors.Join(err, w.end()); err != nil {
		return nil, fmt.Errorf("writing down what the sandbox's commits add: %w", err)
	}
	return w.files, nil
}

// pairs are lines with each commit and one of its parents, or none for the first
// one of all, and how many parents merges have.
func (in Incoming) pairs(ctx context.Context) (lines string, merges map[string]int, err error) {
	out, err := in.git.run(ctx, strings.NewReader(strings.Join(in.Commits, "\n")+"\n"), "rev-list", "--no-walk=unsorted", "--parents", "--stdin")
	if err != nil {
		return "", nil, fmt.Errorf("listing the parents of the sandbox's commits: %w", err)
	}
	var b strings.Builder
	merges = map[string]int{}
	for line := range strings.Lines(string(out)) {
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

// addedWriter writes the files, one after the other.
type addedWriter struct {
	root   *os.Root
	left   int
	merges map[string]int // how many parents they have
	// commits and odd number the commits, and the files without their own name.
	commits, odd int
	files        map[string]Added

	// Of a merge, how many parents it has been compared with, and which of its
	// lines are new to all of these before the last one, and with that.
	compared    int
	fresh, next map[string][]span

	file  *os.File
	name  string
	added Added
	out   *bufio.Writer
	lines int // written to the file so far
}

// commit begins what a commit adds to one of its parents.
func (w *addedWriter) commit(id string) error {
	if id == w.added.Commit {
		w.compared++
		w.fresh = w.next
	} else {
		w.commits++
		w.compared = 1
	}
	w.next = map[string][]span{}
	err := w.end()
	w.added = Added{Commit: id}
	return err
}

// begin begins a file of the commit.
func (w *addedWriter) begin(name string) error {
	err := w.end()
	w.added = Added{Commit: w.added.Commit, Path: name}
	return err
}

// hunk begins lines that follow one another.
func (w *addedWriter) hunk(there int) error {
	if w.file == nil {
		if err := w.create(); err != nil {
			return err
		}
	} else if err := w.line([]byte("\n")); err != nil { // or else gitleaks would read across
		return err
	}
	w.added.starts = append(w.added.starts, start{w.lines + 1, there})
	return nil
}

func (w *addedWriter) create() error {
	if tame(w.added.Path) {
		w.name = fmt.Sprintf("%06d/%s", w.commits, w.added.Path)
		w.file, _ = w.open(w.name)
	}
	if w.file == nil { // for another file system's rules it may be one that is there
		w.odd++
		w.name = fmt.Sprintf("@%d", w.odd)
		var err error
		if w.file, err = w.open(w.name); err != nil {
			return err
		}
	}
	w.out, w.lines = bufio.NewWriter(w.file), 0
	return w.take(minAdded)
}

// open makes a file that everybody who gets to see the folder can read, whatever
// the process's mask is.
func (w *addedWriter) open(name string) (*os.File, error) {
	err := w.root.MkdirAll(path.Dir(name), 0o755)
	for dir := path.Dir(name); err == nil && dir != "."; dir = path.Dir(dir) {
		err = w.root.Chmod(dir, 0o755)
	}
	if err != nil {
		return nil, err
	}
	file, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return file, file.Chmod(0o644)
}

func (w *addedWriter) line(part []byte) error {
	if err := w.take(len(part)); err != nil {
		return err
	}
	if _, err := w.out.Write(part); err != nil {
		return err
	}
	if part[len(part)-1] == '\n' {
		w.lines++
	}
	return nil
}

func (w *addedWriter) take(n int) error {
	if w.left -= n; w.left < 0 {
		return fmt.Errorf("there are more than %d bytes: take them without --cred-scan, after a look of your own", maxAdded)
	}
	return nil
}

// end ends a file.
func (w *addedWriter) end() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.out.Flush(), w.file.Close())
	w.files[w.name], w.file = w.added, nil
	return err
}

// tame says that a path can be one on any file system, and passes through JSON.
func tame(name string) bool {
	if len(name) > 1000 || !utf8.ValidString(name) || !plain(name) || strings.ContainsAny(name, `\:`) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || len(part) > 200 || strings.TrimRight(part, ". ") != part {
			return false
		}
	}
	return true
}

// span are lines that follow one another, from the first to before the last.
type span struct{ from, to int }

// isNew says whether a line that one parent does not have is new to all. A merge
// is compared with one parent after the other, so that is known at the last one.
// One that has the same files as the merge is not shown: the last one never comes,
// and nothing is new.
func (w *addedWriter) isNew(there int) (bool, error) {
	name := w.added.Path
	if w.compared > 1 {
		was := w.fresh[name]
		i := sort.Search(len(was), func(i int) bool { return was[i].to > there })
		if i == len(was) || was[i].from > there {
			return false, nil
		}
	}
	if w.compared >= w.merges[w.added.Commit] {
		return true, nil
	}
	now := w.next[name]
	if last := len(now) - 1; last >= 0 && now[last].to == there {
		now[last].to++
		return false, nil
	}
	w.next[name] = append(now, span{there, there + 1})
	return false, w.take(spanCost)
}

var hunkHead = lazyregexp.New(`^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@`)

// readPatches reads what git diff-tree shows of commits. Inside of a hunk lines
// are counted, so nothing that stands in a file is taken for a header.
func readPatches(r *bufio.Reader, w *addedWriter) error {
	for {
		line, err := readShort(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case objectID().MatchString(line):
			err = w.commit(line)
		case strings.HasPrefix(line, "+++ "):
			err = beginFile(line[len("+++ "):], w)
		case strings.HasPrefix(line, "@@"):
			err = readHunk(r, line, w)
		}
		if err != nil {
			return err
		}
	}
}

// readShort reads a line of git's own, without its end.
func readShort(r *bufio.Reader) (string, error) {
	left := maxListed
	line, err := readLine(r, &left)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF // between two lines
	}
	return line, err
}

// beginFile takes the name from a header. git ends one that has blanks in it
// with a tab, and quotes one that has stranger things.
func beginFile(name string, w *addedWriter) error {
	name = strings.TrimSuffix(name, "\t")
	if strings.HasPrefix(name, `"`) {
		plain, err := strconv.Unquote(name)
		if err != nil {
			return fmt.Errorf("the name %.100q was not understood: %w", name, err)
		}
		name = plain
	}
	return w.begin(strings.TrimPrefix(name, "b/"))
}

// readHunk reads a hunk.
func readHunk(r *bufio.Reader, head string, w *addedWriter) error {
	m := hunkHead().FindStringSubmatch(head)
	if m == nil {
		return fmt.Errorf("%.100q was not understood", head)
	}
	there, err := strconv.Atoi(m[1])
	left := 1
	if err == nil && m[2] != "" {
		left, err = strconv.Atoi(m[2])
	}
	if err != nil {
		return fmt.Errorf("%.100q was not understood: %w", head, err)
	}
	between := true // the last line was not new
	for left > 0 {
		sign, err := r.ReadByte()
		if err != nil {
			return fmt.Errorf("a hunk ends early: %w", err)
		}
		fresh := false
		if sign == '+' {
			if fresh, err = w.isNew(there); err != nil {
				return err
			}
		}
		if fresh && between {
			if err := w.hunk(there); err != nil {
				return err
			}
		}
		if sign == '+' || sign == ' ' { // or else it is not in the commit, or a remark
			between = !fresh
			left--
			there++
		}
		if err := passLine(r, fresh, w); err != nil {
			return err
		}
	}
	return nil
}

// passLine reads the rest of a line of a hunk, and writes it if it is new.
func passLine(r *bufio.Reader, fresh bool, w *addedWriter) error {
	for {
		part, err := r.ReadSlice('\n')
		if fresh && len(part) > 0 {
			if err := w.line(part); err != nil {
				return err
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
