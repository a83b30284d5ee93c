package hostgit

import (
	"crypto/sha1" //nolint:gosec // git's object names
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// maxHashed is the size of the largest file that is hashed.
const maxHashed = 64 << 20

// UnknownBlob is the name of what cannot be hashed.
const UnknownBlob = "?"

// BlobID returns the object name of a file in the working tree, without filters;
// empty if there is no file, [UnknownBlob] for pipes, large files and failures.
// format is the length of object names. Links are not followed out of the tree.
func (g Git) BlobID(path string, format int) string {
	dir, err := os.OpenRoot(g.Root)
	if err != nil {
		return UnknownBlob
	}
	defer func() { _ = dir.Close() }()
	path = filepath.FromSlash(path)
	info, err := dir.Lstat(path)
	switch {
	case os.IsNotExist(err) || err == nil && info.IsDir():
		return ""
	case err != nil || info.Size() > maxHashed:
		return UnknownBlob
	case info.Mode()&os.ModeSymlink != 0:
		target, err := dir.Readlink(path)
		if err != nil {
			return UnknownBlob
		}
		h := newBlob(format, int64(len(target)))
		_, _ = io.WriteString(h, target)
		return hex.EncodeToString(h.Sum(nil))
	case !info.Mode().IsRegular():
		return UnknownBlob
	}
	return contentID(dir, path, format)
}

// contentID hashes the content of a file, which may have become a pipe since: it is
// opened without blocking.
func contentID(dir *os.Root, path string, format int) string {
	f, err := dir.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return UnknownBlob
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHashed {
		return UnknownBlob
	}
	h := newBlob(format, info.Size())
	if n, err := io.Copy(h, io.LimitReader(f, info.Size()+1)); err != nil || n != info.Size() {
		return UnknownBlob
	}
	return hex.EncodeToString(h.Sum(nil))
}

func newBlob(format int, size int64) hash.Hash {
	h := sha1.New() //nolint:gosec // git's object names
	if format == 64 {
		h = sha256.New()
	}
	_, _ = fmt.Fprintf(h, "blob %d\x00", size)
	return h
}
