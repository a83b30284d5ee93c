// Package budget bounds how much is read of what an agent can have written: files, and the
// output of programs.
package budget

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/docker/go-units"
)

// ErrExceeded is in the error of what is larger than its budget.
var ErrExceeded = errors.New("more than its budget")

func exceeded(of string, limit int64) error {
	return fmt.Errorf("%s is larger than %s: %w", of, units.BytesSize(float64(limit)), ErrExceeded)
}

// Buffer keeps the output of a program, which ends at the first write beyond the budget. It has no
// ReadFrom, which [io.Copy], and so os/exec, would prefer to Write.
type Buffer struct {
	limit int
	of    string
	err   error
	kept  bytes.Buffer
}

// New returns a buffer of limit bytes. of names the output, such as "the output of git log".
func New(limit int, of string) *Buffer { return &Buffer{limit: limit, of: of} }

// Write implements [io.Writer]. It keeps nothing of a piece beyond the budget.
func (b *Buffer) Write(p []byte) (int, error) {
	if b.err == nil && len(p) > b.limit-b.kept.Len() {
		b.err = exceeded(b.of, int64(b.limit))
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.kept.Write(p)
}

// Err returns the error of a write beyond the budget. A program may have ended with another one
// because of it.
func (b *Buffer) Err() error { return b.err }

// Bytes returns what was written.
func (b *Buffer) Bytes() []byte { return b.kept.Bytes() }

// String returns what was written.
func (b *Buffer) String() string { return b.kept.String() }

// Head keeps the first bytes of messages, and ignores the rest: the program goes on.
type Head struct {
	limit int
	kept  bytes.Buffer
}

// NewHead returns a Head of limit bytes.
func NewHead(limit int) *Head { return &Head{limit: limit} }

// Write implements [io.Writer]. It never fails.
func (h *Head) Write(p []byte) (int, error) {
	_, _ = h.kept.Write(p[:min(len(p), h.limit-h.kept.Len())])
	return len(p), nil
}

// String returns what was kept.
func (h *Head) String() string { return h.kept.String() }

// ReadFile reads a regular file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would block
		err = &os.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, exceeded(path, limit)
	}
	return content, nil
}
