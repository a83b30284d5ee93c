package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The files' names, in the work tree and in the plugin's folder.
const (
	repositoryFile = "ralph.toml"
	userFile       = "config.toml"
)

// maxFile is the size of the largest file that is read, in bytes.
const maxFile = 1 << 20

// readRepository reads ralph.toml in the work tree's root, if there is one. A
// symbolic link is refused: the repository would choose which of the user's
// files is read, and shown in an error.
func readRepository(root string) (document, error) {
	path := filepath.Join(root, repositoryFile)
	dir, err := os.OpenRoot(root)
	if err != nil {
		return document{}, fmt.Errorf("reading %s: %w", path, err)
	}
	defer func() { _ = dir.Close() }()
	info, err := dir.Lstat(repositoryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return newDocument(path, FromRepository, nil), nil
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return document{}, fmt.Errorf("reading %s: symbolic links are not allowed", path)
	}
	// Without O_NONBLOCK, opening a named pipe would wait for ever.
	f, err := dir.OpenFile(repositoryFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return document{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return readDocument(f, path, FromRepository)
}

// readUser reads config.toml in the plugin's folder, if there is one. It may
// be a symbolic link, as people keep such files elsewhere.
func readUser(dir string) (document, error) {
	path := filepath.Join(dir, userFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return newDocument(path, FromUser, nil), nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return document{}, fmt.Errorf("reading the user configuration: %w", err)
	}
	return readDocument(f, path, FromUser)
}

// readDocument reads and closes an opened configuration file, and takes the
// byte order mark off that some editors write.
func readDocument(f *os.File, path string, from OriginKind) (document, error) {
	text, err := readRegular(f)
	if err != nil {
		return document{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return newDocument(path, from, bytes.TrimPrefix(text, []byte("\ufeff"))), nil
}

// readRegular reads and closes f, which has to be a regular file of reasonable
// size.
func readRegular(f *os.File) ([]byte, error) {
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("larger than %d KiB", maxFile>>10)
	}
	return text, nil
}
