package additions

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// writer writes the files one after the other.
type writer struct {
	root   *os.Root
	left   int
	merges map[string]int // the number of parents
	// commits and renamed number the commits, and the files without their own name.
	commits, renamed int
	files            map[string]File

	// Of a merge: the number of parents compared, and the lines that are new to all
	// of these before the last one, and to that.
	compared    int
	fresh, next map[string][]span

	file    *os.File
	name    string
	current File
	out     *bufio.Writer
	lines   int // written to the file
}

// commit starts the comparison of a commit with one of its parents.
func (w *writer) commit(id string) error {
	if id == w.current.Commit {
		w.compared++
		w.fresh = w.next
	} else {
		w.commits++
		w.compared = 1
	}
	w.next = map[string][]span{}
	err := w.closeFile()
	w.current = File{Commit: id}
	return err
}

// path starts a file of the commit.
func (w *writer) path(name string) error {
	err := w.closeFile()
	w.current = File{Commit: w.current.Commit, Path: name}
	return err
}

// hunk starts consecutive lines. An empty line separates them from the ones before, so
// that a scanner does not read across.
func (w *writer) hunk(there int) error {
	if w.file == nil {
		if err := w.create(); err != nil {
			return err
		}
	} else if err := w.line([]byte("\n")); err != nil {
		return err
	}
	w.current.starts = append(w.current.starts, start{w.lines + 1, there})
	return nil
}

func (w *writer) create() error {
	if portable(w.current.Path) {
		w.name = fmt.Sprintf("%06d/%s", w.commits, w.current.Path)
		w.file, _ = w.open(w.name)
	}
	if w.file == nil { // the name is unusable, or a file or directory has it
		w.renamed++
		w.name = fmt.Sprintf("@%d", w.renamed)
		var err error
		if w.file, err = w.open(w.name); err != nil {
			return err
		}
	}
	w.out, w.lines = bufio.NewWriter(w.file), 0
	return w.count(minAdded)
}

// open creates a file that the scanner's user can read, whatever the umask is.
func (w *writer) open(name string) (*os.File, error) {
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

func (w *writer) line(part []byte) error {
	if err := w.count(len(part)); err != nil {
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

// count enforces the limit.
func (w *writer) count(n int) error {
	if w.left -= n; w.left < 0 {
		return fmt.Errorf("more than %d bytes", maxAdded)
	}
	return nil
}

func (w *writer) closeFile() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.out.Flush(), w.file.Close())
	w.files[w.name], w.file = w.current, nil
	return err
}

// portable reports whether a path is possible on any file system, and in JSON.
func portable(name string) bool {
	if len(name) > 1000 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.ContainsAny(name, `\:`) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || len(part) > 200 || strings.TrimRight(part, ". ") != part {
			return false
		}
	}
	return true
}

// span is a range of lines, without the last one.
type span struct{ from, to int }

// isNew reports whether a line that one parent lacks is new to all. A merge is
// compared with one parent after the other, and the last one decides. git shows
// nothing for a parent with the same files, so nothing is new then.
func (w *writer) isNew(there int) (bool, error) {
	name := w.current.Path
	if w.compared > 1 {
		was := w.fresh[name]
		i := sort.Search(len(was), func(i int) bool { return was[i].to > there })
		if i == len(was) || was[i].from > there {
			return false, nil
		}
	}
	if w.compared >= w.merges[w.current.Commit] {
		return true, nil
	}
	now := w.next[name]
	if last := len(now) - 1; last >= 0 && now[last].to == there {
		now[last].to++
		return false, nil
	}
	w.next[name] = append(now, span{there, there + 1})
	return false, w.count(spanCost)
}
