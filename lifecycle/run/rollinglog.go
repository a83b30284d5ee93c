package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// detachedLogMax bounds the log of a background loop, in bytes.
	detachedLogMax = 64 << 20
	// detachedLogsMax is how many of them are kept.
	detachedLogsMax = 20
)

// rollingLog is a file that starts again when it is full. It is not safe for concurrent use.
type rollingLog struct {
	path string
	max  int
	file *os.File
	size int
}

// newRollingLog creates a log in a directory, with a name that sorts by time.
func newRollingLog(dir, id string, size int) (*rollingLog, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the log directory: %w", err)
	}
	l := &rollingLog{path: filepath.Join(dir, time.Now().UTC().Format("20060102T150405Z")+"-"+id+".log"), max: size}
	var err error
	if l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("creating a log: %w", err)
	}
	return l, nil
}

// Write implements [io.Writer].
func (l *rollingLog) Write(p []byte) (int, error) {
	if l.size > 0 && l.size+len(p) > l.max {
		if err := l.file.Truncate(0); err != nil {
			return 0, err
		}
		l.size = 0
	}
	n, err := l.file.Write(p)
	l.size += n
	return n, err
}

// pruneLogs removes the oldest logs of a directory beyond a number, unless they were written
// to since.
func pruneLogs(dir string, most int, since time.Time) {
	all, err := os.ReadDir(dir) // sorted
	if err != nil {
		return
	}
	for _, e := range all[:max(0, len(all)-most)] {
		if info, err := e.Info(); err == nil && info.ModTime().Before(since) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// rollingReader reads a rolling log while it is written.
type rollingReader struct{ file *os.File }

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
	return &rollingReader{file}, nil
}

// skipLine goes to the line that begins after offset.
func skipLine(file *os.File, offset int64) error {
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	block := make([]byte, 4096)
	n, err := io.ReadFull(file, block)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	end := slices.Index(block[:n], '\n')
	_, err = file.Seek(offset+int64(end)+1, io.SeekStart)
	return err
}

// Copy writes new output.
func (r *rollingReader) Copy(w io.Writer) error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if at, err := r.file.Seek(0, io.SeekCurrent); err != nil {
		return err
	} else if info.Size() < at { // it was started again
		if _, err := r.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	_, err = io.Copy(w, r.file)
	return err
}

func (r *rollingReader) Close() { _ = r.file.Close() }

// AttachBefore is how much earlier output attach shows, in bytes.
const AttachBefore = 4 << 10

// RawLines ends lines for a raw terminal.
type RawLines struct{ To io.Writer }

func (r RawLines) Write(p []byte) (int, error) {
	text := bytes.ReplaceAll(bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	if _, err := r.To.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}
