package gitsync

import (
	"crypto/sha1" //nolint:gosec // git's own names of objects
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// maxHashed is the largest file that is looked into.
const maxHashed = 64 << 20

// blobID returns the name that git would give to a file of the work tree as it
// is; empty if there is none, and "?" if it cannot be told. format is the length
// of object names. Nothing outside the work tree is read, whatever links an
// agent has made.
func blobID(root, path string, format int) string {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return "?"
	}
	defer func() { _ = dir.Close() }()
	path = filepath.FromSlash(path)
	info, err := dir.Lstat(path)
	switch {
	case os.IsNotExist(err) || err == nil && info.IsDir():
		return ""
	case err != nil || info.Size() > maxHashed:
		return "?"
	case info.Mode()&os.ModeSymlink != 0:
		target, err := dir.Readlink(path)
		if err != nil {
			return "?"
		}
		h := newBlob(format, int64(len(target)))
		_, _ = io.WriteString(h, target)
		return hex.EncodeToString(h.Sum(nil))
	case !info.Mode().IsRegular():
		return "?"
	}
	return contentID(dir, path, format)
}

// contentID is that of a file's content. The file may have become something else
// since it was looked at: a pipe would have no end.
func contentID(dir *os.Root, path string, format int) string {
	f, err := dir.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "?"
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHashed {
		return "?"
	}
	h := newBlob(format, info.Size())
	if n, err := io.Copy(h, io.LimitReader(f, info.Size()+1)); err != nil || n != info.Size() {
		return "?"
	}
	return hex.EncodeToString(h.Sum(nil))
}

func newBlob(format int, size int64) hash.Hash {
	h := sha1.New() //nolint:gosec // git's own names of objects
	if format == 64 {
		h = sha256.New()
	}
	_, _ = fmt.Fprintf(h, "blob %d\x00", size)
	return h
}
