package session

import (
	"os"

	"golang.org/x/sys/unix"
)

// unnamedFile creates a file without a name.
func unnamedFile(dir string) (*os.File, error) {
	if f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600); err == nil {
		return f, nil
	}
	return removedFile(dir) // some file systems need names
}
