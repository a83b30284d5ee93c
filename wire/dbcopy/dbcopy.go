// Package dbcopy streams the files of a task database between the host and a sandbox.
package dbcopy

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxSize bounds the files of a database, in bytes.
	MaxSize = 1 << 30
	// maxHeader bounds the first line.
	maxHeader = 4 << 10
)

// Suffixes returns what the names of the files of a database end in, beginning with that of the
// database itself.
func Suffixes() []string { return []string{"", "-wal", "-journal"} }

// File is a file of a database.
type File struct {
	Suffix string `json:"suffix"`
	Size   int64  `json:"size"`

	Content io.Reader `json:"-"`
}

type header struct {
	Files []File `json:"files"`
}

func (h header) check() error {
	left, last := int64(MaxSize), -1
	for _, f := range h.Files {
		order := -1
		for i, suffix := range Suffixes() {
			if f.Suffix == suffix {
				order = i
			}
		}
		if order <= last || last < 0 && order != 0 {
			return fmt.Errorf("unexpected file with suffix %q", f.Suffix)
		}
		if f.Size < 0 || f.Size > left {
			return fmt.Errorf("the database is larger than %d MiB", MaxSize>>20)
		}
		left -= f.Size
		last = order
	}
	return nil
}

// Send writes the files of a database, which may be none.
func Send(w io.Writer, files []File) error {
	if err := send(w, header{files}); err != nil {
		return fmt.Errorf("sending the task database: %w", err)
	}
	return nil
}

func send(w io.Writer, h header) error {
	if err := h.check(); err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(h); err != nil {
		return err
	}
	sum := sha256.New()
	for _, f := range h.Files {
		if _, err := io.CopyN(io.MultiWriter(w, sum), f.Content, f.Size); err != nil {
			return noEOF(err)
		}
	}
	_, err := fmt.Fprintf(w, "%x\n", sum.Sum(nil))
	return err
}

// Receive reads what [Send] writes, and calls write for each file. It returns how many there
// were. The content is only valid without an error.
func Receive(r io.Reader, write func(f File) error) (files int, err error) {
	h, err := receive(bufio.NewReader(r), write)
	if err != nil {
		return 0, fmt.Errorf("receiving the task database: %w", err)
	}
	return len(h.Files), nil
}

func receive(r *bufio.Reader, write func(f File) error) (h header, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil || len(line) > maxHeader {
		return h, errors.Join(noEOF(err), errors.New("invalid header"))
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, err
	}
	if err := h.check(); err != nil {
		return h, err
	}
	sum := sha256.New()
	for _, f := range h.Files {
		content := &io.LimitedReader{R: io.TeeReader(r, sum), N: f.Size}
		f.Content = content
		if err := write(f); err != nil {
			return h, err
		}
		if content.N > 0 {
			return h, io.ErrUnexpectedEOF
		}
	}
	want := make([]byte, 2*sha256.Size)
	if _, err := io.ReadFull(r, want); err != nil {
		return h, noEOF(err)
	}
	if string(want) != hex.EncodeToString(sum.Sum(nil)) {
		return h, errors.New("its checksum is wrong")
	}
	return h, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
