// Package mirror copies the logs of loops between a worktree and its clone in a sandbox. One
// side sends frames with what the other lacks; neither trusts the other.
package mirror

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

const (
	// MaxPayload bounds the content of a frame, in bytes.
	MaxPayload = 1 << 20
	// maxHeader bounds the header of a frame, in bytes.
	maxHeader = 4 << 10
	// maxHello bounds a [Hello], in bytes.
	maxHello = 32 << 20
	// maxFile bounds a file, in bytes. The longest is the output of a run.
	maxFile = 80 << 20
	// maxState bounds a file with the state of a loop, in bytes.
	maxState = 1 << 20
)

// Kind is the kind of a frame.
type Kind string

// The kinds of frames.
const (
	// Data has content of a file.
	Data Kind = "data"
	// Removed means that the sender has pruned a loop.
	Removed Kind = "removed"
	// Synced ends a pass: everything that had changed before was sent.
	Synced Kind = "synced"
)

// Header describes a frame.
type Header struct {
	Kind Kind `json:"kind"`
	// Path is that of a file, or the name of a loop, relative to the directory of logs.
	Path string `json:"path,omitempty"`
	// Offset is the position of the content in the file, and Size its length. The first
	// Overlap bytes are the end of what the receiver has.
	Offset  int64 `json:"offset,omitempty"`
	Size    int   `json:"size,omitempty"`
	Overlap int   `json:"overlap,omitempty"`
	// Replace means that the content is for a new file in place of the existing one.
	Replace bool `json:"replace,omitempty"`
	// Last means that the file is complete, with this time in nanoseconds.
	Last    bool  `json:"last,omitempty"`
	ModTime int64 `json:"mtime,omitempty"`
	// Pass is the request that a pass answers; 0 for none.
	Pass uint64 `json:"pass,omitempty"`
}

// Hello is the first line of a connection: what the receiver has.
type Hello struct {
	// Follow asks for further passes, until the connection is closed.
	Follow bool `json:"follow,omitempty"`
	// Files are the files by their paths.
	Files map[string]Stat `json:"files,omitempty"`
	// Loops are the loops that the receiver has from the sender.
	Loops []string `json:"loops,omitempty"`
}

// Stat is the state of a file.
type Stat struct {
	Size    int64 `json:"size"`
	ModTime int64 `json:"mtime"` // in nanoseconds
}

var (
	loopName = lazyregexp.New(`^[0-9A-Za-z][0-9A-Za-z._-]{0,99}$`)
	fileName = lazyregexp.New(`^[0-9a-z][0-9a-z.-]{0,59}\.(log|jsonl)$`)
)

const (
	loopFile = "loop.json"
	nowFile  = "now.json"
)

// validLoop reports whether name can be a loop's, and is no transcript's.
func validLoop(name string) bool {
	return loopName().MatchString(name) && strings.Contains(name, "-") && !strings.HasSuffix(name, ".log") && filepath.IsLocal(name)
}

// validFile reports whether name can be that of a file of a loop.
func validFile(name string) bool {
	return (name == loopFile || name == nowFile || fileName().MatchString(name)) && filepath.IsLocal(name)
}

// validPath reports whether path is that of a file that is mirrored: one of a loop.
func validPath(path string) bool {
	loop, file, nested := strings.Cut(path, "/")
	return nested && validLoop(loop) && validFile(file)
}

// appendable reports whether a file only grows. The others are replaced atomically.
func appendable(path string) bool { return !strings.HasSuffix(path, ".json") }

// limitOf bounds the size of a file.
func limitOf(path string) int64 {
	if appendable(path) {
		return maxFile
	}
	return maxState
}

// WriteHello writes the first line of a connection.
func WriteHello(w io.Writer, h Hello) error {
	if err := json.NewEncoder(w).Encode(h); err != nil {
		return fmt.Errorf("sending the list of logs: %w", err)
	}
	return nil
}

// ReadHello reads the first line of a connection. It drops files with invalid names.
func ReadHello(r *bufio.Reader) (Hello, error) {
	var h Hello
	line, err := readLine(r, maxHello)
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	if err != nil {
		return Hello{}, fmt.Errorf("reading the list of logs: %w", err)
	}
	for path, stat := range h.Files {
		if !validPath(path) || stat.Size < 0 || stat.Size > limitOf(path) {
			delete(h.Files, path)
		}
	}
	return h, nil
}

func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errors.New("the line is too long")
		}
		line = append(line, part...)
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// WriteFrame writes a frame.
func WriteFrame(w io.Writer, h Header, payload []byte) error {
	h.Size = len(payload)
	header, err := json.Marshal(h)
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(header)), uint32(len(header)))
	if _, err = w.Write(append(frame, header...)); err == nil && len(payload) > 0 {
		_, err = w.Write(payload)
	}
	return err
}

// ReadFrame reads a valid frame. The error is [io.EOF] after the last one.
func ReadFrame(r *bufio.Reader) (Header, []byte, error) {
	h, payload, err := readFrame(r)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("reading mirrored logs: %w", err)
	}
	return h, payload, err
}

func readFrame(r *bufio.Reader) (h Header, payload []byte, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return Header{}, nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxHeader {
		return Header{}, nil, fmt.Errorf("invalid frame: header of %d bytes", n)
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(r, header); err != nil {
		return Header{}, nil, noEOF(err)
	}
	if err := json.Unmarshal(header, &h); err != nil {
		return Header{}, nil, fmt.Errorf("invalid frame: %w", err)
	}
	if err := h.check(); err != nil {
		return Header{}, nil, err
	}
	payload = make([]byte, h.Size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return Header{}, nil, noEOF(err)
	}
	return h, payload, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (h Header) check() error {
	valid := false
	switch h.Kind {
	case Data:
		valid = validPath(h.Path) &&
			h.Size >= 0 && h.Size <= MaxPayload &&
			h.Offset >= 0 && h.Offset <= limitOf(h.Path) && h.Offset+int64(h.Size) <= limitOf(h.Path) &&
			h.Overlap >= 0 && h.Overlap <= h.Size && (!h.Replace || h.Overlap == 0) &&
			(h.Replace || appendable(h.Path)) && h.ModTime >= 0
	case Removed:
		valid = validLoop(h.Path) && h.Size == 0
	case Synced:
		valid = h.Path == "" && h.Size == 0
	}
	if !valid {
		return fmt.Errorf("invalid frame %q for %q", h.Kind, h.Path)
	}
	return nil
}
