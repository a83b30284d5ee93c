package hostgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// RemoveParts removes what a killed git has written of changes and a checkout of them would take
// for the user's: files that are not whole, and what is in the place of a tracked directory or
// file. What has other content, or is staged, stays. Earlier files are checked out again.
func (g Git) RemoveParts(ctx context.Context, index []Entry, changes []Change, format int) error {
	root, err := os.OpenRoot(g.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	tracked, dirs := byPath(index)
	var earlier []string
	for _, c := range changes {
		e, is := tracked[c.Path]
		if c.Deleted() || is && e.OID != c.OldID || behindFile(root, c.Path) {
			continue
		}
		part := false
		switch g.BlobID(c.Path, format) {
		case "", c.OldID:
		case c.NewID:
			part = dirs[c.Path]
		default:
			if part, err = g.isPart(ctx, root, c); err != nil {
				return err
			}
		}
		if part {
			if err := root.Remove(filepath.FromSlash(c.Path)); err != nil {
				return fmt.Errorf("removing a part of a file: %w", err)
			}
		}
		if part && is {
			earlier = append(earlier, c.Path)
		}
		removeEmpty(root, tracked, c.Path)
	}
	if len(earlier) == 0 {
		return nil
	}
	if _, err := g.InWorktree(ctx, append([]string{"checkout-index", "-q", "--"}, earlier...)...); err != nil {
		return fmt.Errorf("checking out your files: %w", err)
	}
	return nil
}

// behindFile reports whether one of the directories of a path is a link or a file.
func behindFile(root *os.Root, path string) bool {
	for at := filepath.Dir(filepath.FromSlash(path)); at != "."; at = filepath.Dir(at) {
		if info, err := root.Lstat(at); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// removeEmpty removes the directories of a path that are empty and in the place of a tracked file.
func removeEmpty(root *os.Root, tracked map[string]Entry, path string) {
	for i, c := range path {
		if _, is := tracked[path[:i]]; c != '/' || !is {
			continue
		}
		for at := filepath.Dir(filepath.FromSlash(path)); len(at) >= i; at = filepath.Dir(at) {
			if info, err := root.Lstat(at); err == nil && !info.IsDir() || err == nil && root.Remove(at) != nil {
				return
			}
		}
	}
}

// isPart reports whether a file is the beginning of the new content of a change, and no more.
func (g Git) isPart(ctx context.Context, root *os.Root, c Change) (bool, error) {
	if !strings.HasPrefix(c.NewMode, "100") { // git makes a link at once
		return false, nil
	}
	name := filepath.FromSlash(c.Path)
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return false, nil //nolint:nilerr // the checkout says what is in the way
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, nil //nolint:nilerr // as above
	}
	defer func() { _ = f.Close() }()
	w := &prefix{file: f}
	if err := g.Stream(ctx, nil, w, "cat-file", "blob", c.NewID); err != nil {
		return false, fmt.Errorf("comparing %s with the sandbox's: %w", c.Path, err)
	}
	return w.ended && !w.differs, nil
}

// prefix compares what is written to it with a file.
type prefix struct {
	file    io.Reader
	buffer  []byte
	ended   bool // the file is shorter
	differs bool
}

func (p *prefix) Write(content []byte) (int, error) {
	if p.differs || p.ended {
		return len(content), nil
	}
	p.buffer = slices.Grow(p.buffer[:0], len(content))[:len(content)]
	n, err := io.ReadFull(p.file, p.buffer)
	p.ended = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	p.differs = err != nil && !p.ended || !bytes.Equal(p.buffer[:n], content[:n])
	return len(content), nil
}
