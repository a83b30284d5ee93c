//go:build !linux

package session

import "os"

// unnamedFile creates a file without a name.
func unnamedFile(dir string) (*os.File, error) { return removedFile(dir) }
