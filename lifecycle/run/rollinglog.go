package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// detachedLogMax bounds the log of a loop without a terminal, in bytes. Twice
	// as much is kept.
	detachedLogMax = 32 << 20
	// detachedLogsMax is how many of them are kept.
	detachedLogsMax = 20
	// olderSuffix marks the earlier half of a log.
	olderSuffix = ".1"
)

// rollingLog is a file that keeps the end of what is written. It is not safe for
// concurrent use.
type rollingLog struct {
	path string
	max  int
	file *os.File
	size int
}

// newRollingLog makes a log in a folder, with a name that sorts by time.
func newRollingLog(dir, id string, size int) (*rollingLog, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the log folder: %w", err)
	}
	l := &rollingLog{path: filepath.Join(dir, time.Now().UTC().Format("20060102T150405Z")+"-"+id+".log"), max: size}
	return l, l.open()
}

func (l *rollingLog) open() (err error) {
	l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("creating a log: %w", err)
	}
	l.size = 0
	return nil
}

// Write implements [io.Writer].
func (l *rollingLog) Write(p []byte) (int, error) {
	if l.file == nil {
		return 0, fs.ErrClosed
	}
	if l.size > 0 && l.size+len(p) > l.max {
		err := errors.Join(os.Rename(l.path, l.path+olderSuffix), l.file.Close())
		l.file = nil
		if err := errors.Join(err, l.open()); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += n
	return n, err
}

// pruneDetached removes the oldest logs but not one that is in use.
func pruneDetached(dir, keep string) {
	all, err := os.ReadDir(dir) // sorted
	if err != nil {
		return
	}
	all = slices.DeleteFunc(all, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".log") })
	for _, e := range all[:max(0, len(all)-detachedLogsMax)] {
		path := filepath.Join(dir, e.Name())
		if info, err := e.Info(); err != nil || path == keep || time.Since(info.ModTime()) < 24*time.Hour {
			continue // its loop may still run
		}
		_ = os.Remove(path)
		_ = os.Remove(path + olderSuffix)
	}
}

// rollingReader reads a rolling log while it is written.
type rollingReader struct {
	path string
	file *os.File
}

// OpenRolling opens a log at its end, or about so many bytes before it, at the
// beginning of a line.
func OpenRolling(path string, before int64) (*rollingReader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	info, err := file.Stat()
	if err == nil && info.Size() > before {
		err = skipLine(file, info.Size()-before)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	return &rollingReader{path, file}, nil
}

// skipLine goes to the line that begins after offset.
func skipLine(file *os.File, offset int64) error {
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	piece := make([]byte, 4096)
	n, err := io.ReadFull(file, piece)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	end := slices.Index(piece[:n], '\n')
	_, err = file.Seek(offset+int64(end)+1, io.SeekStart)
	return err
}

// Copy writes what has come since.
func (r *rollingReader) Copy(w io.Writer) error {
	for {
		now, err := os.Stat(r.path)
		var was os.FileInfo
		if err == nil {
			was, err = r.file.Stat()
		}
		rolled := err == nil && !os.SameFile(now, was)
		if _, err := io.Copy(w, r.file); err != nil || !rolled {
			return err
		}
		next, err := os.Open(r.path)
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		_ = r.file.Close()
		r.file = next
	}
}

func (r *rollingReader) Close() { _ = r.file.Close() }

// AttachBefore is how much of what was before is shown, in bytes.
const AttachBefore = 4 << 10

// RawLines ends lines as a raw terminal wants it.
type RawLines struct{ To io.Writer }

func (r RawLines) Write(p []byte) (int, error) {
	text := bytes.ReplaceAll(bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	if _, err := r.To.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}
