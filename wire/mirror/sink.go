package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

const (
	// maxTotal bounds what a sink has on disk, in bytes. A worktree's logs are pruned at 2 GiB.
	maxTotal = 4 << 30
	// maxFiles bounds the number of files.
	maxFiles = 50_000
	// tempSuffix is that of a file that is not complete. It is not mirrored.
	tempSuffix = ".new"
)

// DivergedError means that a file is not the beginning of the sender's.
type DivergedError struct{ Path string }

func (e *DivergedError) Error() string {
	return fmt.Sprintf("the log %s is not the beginning of the one to mirror", e.Path)
}

// Sink writes frames to the logs of a worktree. It never writes outside of them, even if an agent
// has created links there, and never changes files that are not mirrored.
type Sink struct {
	// Accept reports whether a loop may be written; nil for all.
	Accept func(loop string) bool
	// Created is called for each new loop; nil for none.
	Created func(loop string)
	// Prune reports whether a loop may be removed; nil for none.
	Prune func(loop string) bool

	logs  *os.Root
	owner *runlog.Owner
	files map[string]Stat // without incomplete ones
	total int64
	loops map[string]bool // whose directories were checked
}

// OpenSink opens the logs of the worktree top, and creates their directory. A nil owner of new
// files is the user of this process.
func OpenSink(top string, owner *runlog.Owner) (*Sink, error) {
	logs, err := runlog.MakeLogs(top, owner)
	if err != nil {
		return nil, fmt.Errorf("opening the logs of %s: %w", top, err)
	}
	s := &Sink{logs: logs, owner: owner, files: map[string]Stat{}, loops: map[string]bool{}}
	s.read()
	return s, nil
}

// Close closes the logs.
func (s *Sink) Close() { _ = s.logs.Close() }

// read lists the files.
func (s *Sink) read() {
	for _, loop := range loopsIn(s.logs) {
		dir, err := runlog.OpenDir(s.logs, loop.Name())
		if err != nil {
			continue // removed or replaced
		}
		for _, info := range list(dir, func(e fs.DirEntry) bool { return e.Type().IsRegular() && validFile(e.Name()) }) {
			s.set(path.Join(loop.Name(), info.Name()), Stat{info.Size(), info.ModTime().UnixNano()})
		}
		_ = dir.Close()
	}
}

func (s *Sink) set(name string, stat Stat) {
	s.total += stat.Size - s.files[name].Size
	s.files[name] = stat
}

// Files returns the files that the sink has, by their paths. It must not be changed.
func (s *Sink) Files() map[string]Stat { return s.files }

// Complete returns the loops whose state the sink has.
func (s *Sink) Complete() map[string]bool {
	all := map[string]bool{}
	for name := range s.files {
		if path.Base(name) == loopFile {
			all[path.Dir(name)] = true
		}
	}
	return all
}

// Apply applies a frame. Frames must come from [ReadFrame].
func (s *Sink) Apply(h Header, payload []byte) error {
	var err error
	switch h.Kind {
	case Removed:
		err = s.remove(h.Path)
	case Data:
		err = s.data(h, payload)
	case Synced:
	}
	if err != nil {
		return fmt.Errorf("mirroring the log %s: %w", h.Path, err)
	}
	return nil
}

func (s *Sink) remove(loop string) error {
	if s.Prune == nil || !s.Prune(loop) {
		return nil
	}
	delete(s.loops, loop)
	for name := range s.files {
		if path.Dir(name) == loop {
			s.set(name, Stat{})
			delete(s.files, name)
		}
	}
	return s.logs.RemoveAll(loop)
}

func (s *Sink) data(h Header, payload []byte) error {
	loop, _, nested := strings.Cut(h.Path, "/")
	if s.Accept != nil && (!nested || !s.Accept(loop)) {
		return errors.New("unexpected file")
	}
	if s.total+int64(len(payload)) > maxTotal || len(s.files) >= maxFiles {
		return errors.New("too many or too large logs")
	}
	dir := s.logs
	if nested {
		if err := s.makeLoop(loop); err != nil {
			return err
		}
		var err error
		if dir, err = runlog.OpenDir(s.logs, loop); err != nil {
			return err
		}
		defer func() { _ = dir.Close() }()
	}
	if h.Replace {
		return s.replace(dir, h, payload)
	}
	return s.append(dir, h, payload)
}

// makeLoop creates the directory of a loop, in place of anything else.
func (s *Sink) makeLoop(loop string) error {
	if s.loops[loop] {
		return nil
	}
	info, err := s.logs.Lstat(loop)
	if err == nil && !info.IsDir() {
		if err = s.logs.Remove(loop); err == nil {
			err = fs.ErrNotExist
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.logs.Mkdir(loop, 0o755); err == nil {
			err = s.owner.Chown(s.logs, loop)
		}
		if err == nil && s.Created != nil {
			s.Created(loop)
		}
	}
	s.loops[loop] = err == nil
	return err
}

// replace writes a part of a new file. The last one puts it in place.
func (s *Sink) replace(dir *os.Root, h Header, payload []byte) error {
	name := path.Base(h.Path)
	temp := name + tempSuffix
	if h.Offset == 0 {
		if err := dir.RemoveAll(temp); err != nil {
			return err
		}
		if err := s.create(dir, temp); err != nil {
			return err
		}
	}
	if err := write(dir, temp, h, payload); err != nil {
		return err
	}
	if !h.Last {
		return nil
	}
	if err := setTime(dir, temp, h); err != nil {
		return err
	}
	if info, err := dir.Lstat(name); err == nil && info.IsDir() {
		if err := dir.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := dir.Rename(temp, name); err != nil {
		return err
	}
	s.set(h.Path, Stat{h.Offset + int64(len(payload)), h.ModTime})
	return nil
}

// append writes a part of a file, after those that it has. One that has an offset of 0 begins
// the file again.
func (s *Sink) append(dir *os.Root, h Header, payload []byte) error {
	name := path.Base(h.Path)
	if h.Offset == 0 && h.Overlap == 0 {
		info, err := dir.Lstat(name)
		if err == nil && (info.Size() > 0 || !info.Mode().IsRegular()) {
			if err = dir.RemoveAll(name); err == nil {
				err = fs.ErrNotExist
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = s.create(dir, name)
		}
		if err != nil {
			return err
		}
	}
	if err := write(dir, name, h, payload); err != nil {
		return err
	}
	stat := Stat{h.Offset + int64(len(payload)), s.files[h.Path].ModTime}
	if h.Last {
		if err := setTime(dir, name, h); err != nil {
			return err
		}
		stat.ModTime = h.ModTime
	}
	s.set(h.Path, stat)
	return nil
}

func (s *Sink) create(dir *os.Root, name string) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), s.owner.Chown(dir, name))
}

// write writes content at the end of a file, after it has compared what overlaps.
func write(dir *os.Root, name string, h Header, payload []byte) (err error) {
	before, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!before.Mode().IsRegular() || before.Size() != h.Offset+int64(h.Overlap)) {
		return &DivergedError{h.Path}
	}
	if err != nil {
		return err
	}
	f, err := dir.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0) // it could have been replaced by a pipe
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
		return errors.Join(err, &DivergedError{h.Path})
	}
	has := make([]byte, h.Overlap)
	if _, err := f.ReadAt(has, h.Offset); err != nil {
		return err
	}
	if !bytes.Equal(has, payload[:h.Overlap]) {
		return &DivergedError{h.Path}
	}
	_, err = f.WriteAt(payload[h.Overlap:], h.Offset+int64(h.Overlap))
	return err
}

func setTime(dir *os.Root, name string, h Header) error {
	at := time.Unix(0, h.ModTime)
	return dir.Chtimes(name, at, at)
}
