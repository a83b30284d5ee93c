package session

import (
	"errors"
	"fmt"
	"os"
)

// maxSpool bounds the file with the part of a log that waits for the host, in bytes.
const maxSpool = 256 << 20

// spool is a file without a name, which only this process can open: the agent has the same user.
type spool struct {
	file *os.File // nil if it is empty
	end  int64
	max  int64
}

// write appends to the file and returns the offset.
func (s *spool) write(p []byte) (at int64, err error) {
	if s.end+int64(len(p)) > s.max {
		return 0, errors.New("too much waits for the host")
	}
	if s.file == nil {
		if s.file, err = unnamedFile(os.TempDir()); err != nil {
			return 0, err
		}
	}
	at = s.end
	if _, err := s.file.WriteAt(p, at); err != nil {
		return 0, err
	}
	s.end += int64(len(p))
	return at, nil
}

func (s *spool) read(at int64, size int) ([]byte, error) {
	p := make([]byte, size)
	if _, err := s.file.ReadAt(p, at); err != nil {
		return nil, fmt.Errorf("reading the log that waits for the host: %w", err)
	}
	return p, nil
}

// reset removes the content.
func (s *spool) reset() {
	if s.file != nil {
		_ = s.file.Close() // it has no name
		s.file, s.end = nil, 0
	}
}

// removedFile creates a file and removes its name.
func removedFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "ralph-log-")
	if err != nil {
		return nil, fmt.Errorf("creating a temporary file: %w", err)
	}
	_ = os.Remove(f.Name()) // not on Windows, where only tests need one
	return f, nil
}
