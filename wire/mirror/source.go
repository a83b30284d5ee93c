package mirror

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

const (
	// maxEntries bounds listings of directories that an agent can write.
	maxEntries = 20_000
	// maxSent bounds the number of loops that are sent, the newest ones. A worktree keeps fewer.
	maxSent = 100
	// overlap is how much of the receiver's file is compared before it is appended to, in bytes.
	overlap = 256
	// coarse is the precision of times on file systems that do not keep nanoseconds.
	coarse = 2 * time.Second
	// hotTime is how long a quick pass reads a loop after a change. Appending to a file does not
	// change the directory.
	hotTime = 30 * time.Second
)

// sent is the state in which a file was sent.
type sent struct {
	Stat
	file fs.FileInfo // nil for a file that the receiver had before
}

// Source sends the logs of a worktree. It follows no links, and reads regular files only.
type Source struct {
	// Newest limits it to loops that the receiver does not have completely, and to this number
	// of the newest ones; 0 to send all changes.
	Newest int

	top      string
	out      *bufio.Writer
	files    map[string]sent
	complete map[string]bool        // loops that the receiver has had
	loops    map[string]time.Time   // that the receiver has, with the end of their hot time
	dirs     map[string]fs.FileInfo // as seen in the previous pass
	wrote    bool                   // since the last [Synced]
}

// NewSource returns the source for a receiver with these files.
func NewSource(top string, has Hello, w io.Writer) *Source {
	s := &Source{
		top: top, out: bufio.NewWriterSize(w, 64<<10),
		files: map[string]sent{}, complete: map[string]bool{}, loops: map[string]time.Time{}, dirs: map[string]fs.FileInfo{},
	}
	for name, stat := range has.Files {
		s.files[name] = sent{Stat: stat}
		if path.Base(name) == loopFile {
			s.complete[path.Dir(name)] = true
		}
	}
	for _, loop := range has.Loops {
		if validLoop(loop) {
			s.loops[loop] = time.Time{}
		}
	}
	return s
}

// Pass sends what has changed. A quick pass skips loops that do not seem to run. A pass that
// answers a request, or sends anything, ends with [Synced].
func (s *Source) Pass(quick bool, request uint64) error {
	err := s.pass(quick)
	if err == nil && (s.wrote || request > 0) {
		s.wrote = false
		err = WriteFrame(s.out, Header{Kind: Synced, Pass: request}, nil)
	}
	return errors.Join(err, s.out.Flush())
}

func (s *Source) pass(quick bool) error {
	logs, err := runlog.OpenLogs(s.top)
	if err != nil {
		return nil //nolint:nilerr // there are none, or an agent has replaced the directory
	}
	defer func() { _ = logs.Close() }()
	all := loopsIn(logs)
	limit := maxSent
	if s.Newest > 0 {
		limit = s.Newest
	}
	newest := all[max(0, len(all)-limit):]
	for i, dir := range slices.Backward(newest) { // the one that runs first
		hot := s.hot(dir)
		if quick && !hot && i < len(newest)-1 || s.Newest > 0 && s.complete[dir.Name()] {
			continue
		}
		if err := s.sendLoop(logs, dir.Name()); err != nil {
			return err
		}
	}
	if s.Newest > 0 || quick {
		return nil
	}
	return s.reportRemoved(all)
}

// loopsIn lists the directories of loops, oldest first.
func loopsIn(logs *os.Root) []fs.FileInfo {
	return list(logs, func(e fs.DirEntry) bool { return e.IsDir() && validLoop(e.Name()) })
}

// list lists a directory by name.
func list(at *os.Root, matches func(fs.DirEntry) bool) []fs.FileInfo {
	dir, err := at.Open(".")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	entries, _ := dir.ReadDir(maxEntries)
	var all []fs.FileInfo
	for _, e := range entries {
		if !matches(e) {
			continue
		}
		if info, err := at.Lstat(e.Name()); err == nil { // removed otherwise
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// hot reports whether a loop may have changed since the previous pass.
func (s *Source) hot(dir fs.FileInfo) bool {
	before := s.dirs[dir.Name()]
	s.dirs[dir.Name()] = dir
	return before == nil || !os.SameFile(before, dir) || !before.ModTime().Equal(dir.ModTime()) || time.Now().Before(s.loops[dir.Name()])
}

// rank orders the files of a loop. A file tells that those after it are complete: it is read
// before them, and sent after them.
func rank(name string) int {
	i := slices.Index([]string{loopFile, nowFile, "iterations.jsonl", "events.jsonl"}, name)
	if i < 0 {
		return 4
	}
	return i
}

// change is a file to send.
type change struct {
	path    string
	info    fs.FileInfo
	content []byte // of a file that is replaced atomically
}

// sendLoop sends the changes of a loop.
func (s *Source) sendLoop(logs *os.Root, loop string) error {
	dir, err := runlog.OpenDir(logs, loop)
	if err != nil {
		return nil //nolint:nilerr // removed or replaced
	}
	defer func() { _ = dir.Close() }()
	if info, err := dir.Lstat(loopFile); err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // not a loop yet
	}
	all := list(dir, func(e fs.DirEntry) bool { return e.Type().IsRegular() && validFile(e.Name()) })
	slices.SortStableFunc(all, func(a, b fs.FileInfo) int { return rank(a.Name()) - rank(b.Name()) })
	var changes []change
	for _, info := range all {
		c := change{path: path.Join(loop, info.Name()), info: info}
		if s.unchanged(c) || !appendable(c.path) && !c.read(dir) {
			continue
		}
		changes = append(changes, c)
	}
	if len(changes) > 0 {
		s.loops[loop] = time.Now().Add(hotTime)
	} else if _, known := s.loops[loop]; !known {
		s.loops[loop] = time.Time{}
	}
	for _, c := range slices.Backward(changes) {
		if err := s.send(dir, c); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) unchanged(c change) bool {
	before, known := s.files[c.path]
	if !known || before.Size != c.info.Size() {
		return false
	}
	if before.file != nil {
		return os.SameFile(before.file, c.info) && before.ModTime == c.info.ModTime().UnixNano()
	}
	difference := time.Duration(c.info.ModTime().UnixNano() - before.ModTime).Abs()
	if difference != 0 && (!appendable(c.path) || difference > coarse) {
		return false
	}
	s.files[c.path] = sent{Stat{before.Size, c.info.ModTime().UnixNano()}, c.info}
	return true
}

// read reads a file that is replaced atomically, and reports whether it could be read.
func (c *change) read(dir *os.Root) bool {
	f, err := runlog.OpenFile(dir, path.Base(c.path))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	if c.info, err = f.Stat(); err != nil || c.info.Size() > limitOf(c.path) {
		return false
	}
	c.content, err = io.ReadAll(io.LimitReader(f, limitOf(c.path)))
	return err == nil
}

// send sends one file.
func (s *Source) send(dir *os.Root, c change) error {
	before := s.files[c.path]
	h := Header{Kind: Data, Path: c.path, Replace: true, ModTime: max(0, c.info.ModTime().UnixNano())}
	if !appendable(c.path) {
		return s.sendContent(h, c)
	}
	if c.info.Size() > limitOf(c.path) {
		return nil
	}
	f, err := runlog.OpenFile(dir, path.Base(c.path))
	if err != nil {
		return nil //nolint:nilerr // removed or replaced: the next pass sends it
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err != nil || !os.SameFile(info, c.info) {
		return nil //nolint:nilerr // as above
	}
	grown := before.Size <= c.info.Size() && (before.file != nil && os.SameFile(before.file, c.info) || before.file == nil && before.Size < c.info.Size())
	if grown {
		h.Replace = false
		if before.file == nil {
			h.Overlap = int(min(before.Size, overlap))
		}
		h.Offset = before.Size - int64(h.Overlap)
	}
	return s.sendFile(h, f, c)
}

// sendFile sends a file from an offset on, up to the size that it had.
func (s *Source) sendFile(h Header, f *os.File, c change) error {
	buffer := make([]byte, MaxPayload)
	for {
		n, err := f.ReadAt(buffer[:min(int64(len(buffer)), c.info.Size()-h.Offset)], h.Offset)
		end := h.Offset + int64(n)
		h.Overlap = min(h.Overlap, n)
		h.Last = err != nil || end == c.info.Size()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil // the next pass tries again
		}
		if err := s.write(h, buffer[:n]); err != nil {
			return err
		}
		if h.Last {
			s.files[c.path] = sent{Stat{end, c.info.ModTime().UnixNano()}, c.info}
			return nil
		}
		h.Offset, h.Overlap = end, 0
	}
}

// sendContent sends a file that was read.
func (s *Source) sendContent(h Header, c change) error {
	for rest := c.content; ; {
		n := min(len(rest), MaxPayload)
		h.Last = n == len(rest)
		if err := s.write(h, rest[:n]); err != nil {
			return err
		}
		if h.Last {
			s.files[c.path] = sent{Stat{int64(len(c.content)), c.info.ModTime().UnixNano()}, c.info}
			return nil
		}
		rest = rest[n:]
		h.Offset += int64(n)
	}
}

func (s *Source) write(h Header, payload []byte) error {
	s.wrote = true
	return WriteFrame(s.out, h, payload)
}

// reportRemoved reports loops that were pruned: those older than all that are left. Others were
// removed by an agent, and the receiver keeps them.
func (s *Source) reportRemoved(left []fs.FileInfo) error {
	if len(left) == 0 {
		return nil
	}
	for loop := range s.loops {
		if loop >= left[0].Name() {
			continue
		}
		if err := s.write(Header{Kind: Removed, Path: loop}, nil); err != nil {
			return err
		}
		delete(s.loops, loop)
		delete(s.dirs, loop)
		for name := range s.files {
			if path.Dir(name) == loop {
				delete(s.files, name)
			}
		}
	}
	return nil
}
