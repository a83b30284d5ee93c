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

// File names in the worktree and in the plugin's directory. Other programs have a ralph.toml,
// too: beside one of them, ownFile is ours.
const (
	ownFile        = "docker-ralph.toml"
	repositoryFile = "ralph.toml"
	userFile       = "config.toml"
)

// RepositoryFiles are the files with settings that a worktree can have.
func RepositoryFiles(root string) []string {
	return []string{filepath.Join(root, ownFile), filepath.Join(root, repositoryFile)}
}

// maxFile is the size of the largest file that is read, in bytes.
const maxFile = 1 << 20

// readRepository reads docker-ralph.toml in the worktree's root or, if there is none, ralph.toml. A
// symbolic link is refused: the repository would choose which of the user's
// files is read, and shown in an error.
func readRepository(root string) (document, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return document{}, fmt.Errorf("reading %s: %w", filepath.Join(root, repositoryFile), err)
	}
	defer func() { _ = dir.Close() }()
	for _, name := range []string{ownFile, repositoryFile} {
		d, err := readIn(dir, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return d, err
		}
	}
	return newDocument(filepath.Join(root, repositoryFile), FromRepository, nil), nil
}

func readIn(dir *os.Root, name string) (document, error) {
	path := filepath.Join(dir.Name(), name)
	info, err := dir.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return document{}, fmt.Errorf("reading %s: symbolic links are not allowed", path)
	}
	if err != nil {
		return document{}, fmt.Errorf("reading %s: %w", path, err)
	}
	// Without O_NONBLOCK, opening a named pipe would wait for ever.
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
