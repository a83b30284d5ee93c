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
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo/filters"
)

// rollBackTimeout bounds checking files out again.
const rollBackTimeout = 10 * time.Minute

// Interrupted is a checkout from one commit to another that did not complete. What has neither the new content nor the
// beginning of it, as git writes it, or is staged, is the user's, as are the files in Kept.
type Interrupted struct {
	From, To string
	Kept     map[string]bool
}

// RollBack removes the files that the checkout has written, and checks out the earlier ones.
func (g Git) RollBack(ctx context.Context, i Interrupted) error {
	changes, tracked, err := g.unstaged(ctx, i)
	if err != nil || len(changes) == 0 {
		return err
	}
	root, err := os.OpenRoot(g.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := g.removeWritten(ctx, root, i.To, changes, tracked, true); err != nil {
		return err
	}
	return g.restore(ctx, root, tracked, changes)
}

// Complete removes the files that the checkout has written in part, and returns the changes whose files are there and are
// not the earlier ones.
func (g Git) Complete(ctx context.Context, i Interrupted) (there []Change, err error) {
	i.Kept = nil // they are whole
	changes, tracked, err := g.unstaged(ctx, i)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	root, err := os.OpenRoot(g.Root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if err := g.removeWritten(ctx, root, i.To, changes, tracked, false); err != nil {
		return nil, err
	}
	out, err := g.InWorktree(ctx, "ls-files", "-z", "--modified")
	if err != nil {
		return nil, fmt.Errorf("listing changed files: %w", err)
	}
	modified := map[string]bool{}
	for _, path := range splitNull(out) {
		modified[path] = true
	}
	return slices.DeleteFunc(changes, func(c Change) bool {
		_, is := tracked[c.Path]
		info, err := root.Lstat(filepath.FromSlash(c.Path))
		return c.Deleted() || err != nil || info.IsDir() || is && !modified[c.Path] || behindFile(root, c.Path)
	}), nil
}

// unstaged returns the changes of a checkout that the user has not staged otherwise, and the entries of the index.
func (g Git) unstaged(ctx context.Context, i Interrupted) (changes []Change, tracked map[string]Entry, err error) {
	if changes, err = g.Changes(ctx, i.From, i.To); err != nil || len(changes) == 0 {
		return nil, nil, err
	}
	index, err := g.Index(ctx)
	if err != nil {
		return nil, nil, err
	}
	tracked, _ = byPath(index)
	return slices.DeleteFunc(changes, func(c Change) bool {
		e, is := tracked[c.Path]
		return i.Kept[c.Path] || is && e.OID != c.OldID || e.Tag == 'S'
	}), tracked, nil
}

// removeWritten removes the files that a checkout has written in part, or all.
func (g Git) removeWritten(ctx context.Context, root *os.Root, to string, changes []Change, tracked map[string]Entry, all bool) error {
	there, remove, err := g.withAttributes(ctx, to)
	if err != nil {
		return err
	}
	defer remove()
	for _, c := range changes {
		if c.Deleted() || behindFile(root, c.Path) {
			continue
		}
		part, whole, err := there.hasWritten(ctx, root, c, len(to))
		if err == nil && (part || whole && all) {
			err = root.Remove(filepath.FromSlash(c.Path))
		}
		if err != nil {
			return fmt.Errorf("removing %s, which was not checked out completely: %w", c.Path, err)
		}
		removeEmpty(root, tracked, c.Path)
	}
	return nil
}

// withAttributes returns git for which the attributes of a commit count, in a temporary working tree.
func (g Git) withAttributes(ctx context.Context, commit string) (_ Git, remove func(), err error) {
	dir, err := os.MkdirTemp("", "docker-ralph-attributes-")
	if err != nil {
		return g, nil, err
	}
	there, removeIndex := g, func() {}
	remove = func() {
		removeIndex()
		_ = os.RemoveAll(dir)
	}
	if err = g.Owner.Chown(dir); err == nil {
		there.Git, removeIndex, err = filters.WithAttributes(ctx, g.Git, commit)
	}
	if err == nil {
		there = there.With("GIT_WORK_TREE=" + dir)
		there.Dir = dir
		_, err = there.Output(ctx, nil, "checkout-index", "-q", "-a")
	}
	if err != nil {
		remove()
		return g, nil, err
	}
	return there, remove, nil
}

// restore checks out those of the earlier files that are missing.
func (g Git) restore(ctx context.Context, root *os.Root, tracked map[string]Entry, changes []Change) error {
	missing := slices.DeleteFunc(Reversed(changes), func(c Change) bool {
		_, is := tracked[c.Path]
		_, err := root.Lstat(filepath.FromSlash(c.Path))
		return !is || err == nil || c.NewMode == Submodule || behindFile(root, c.Path)
	})
	if len(missing) == 0 {
		return nil
	}
	earlier := g
	var remove func()
	var err error
	if earlier.Git, remove, err = filters.WithIndex(ctx, g.Git); err != nil {
		return err
	}
	defer remove()
	earlier.Timeout = rollBackTimeout
	if _, err = earlier.Output(ctx, strings.NewReader(IndexInfo(missing)), "update-index", "-z", "--add", "--index-info"); err == nil {
		_, err = earlier.InWorktree(ctx, "checkout-index", "-q", "-a")
	}
	if err != nil {
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

// hasWritten reports whether a file has the beginning of the new content of a change and no more, or all of it.
func (g Git) hasWritten(ctx context.Context, root *os.Root, c Change, format int) (part, whole bool, err error) {
	switch g.BlobID(c.Path, format) {
	case "", c.OldID:
		return false, false, nil
	case c.NewID:
		info, err := root.Lstat(filepath.FromSlash(c.Path))
		return false, err == nil && (info.Mode()&os.ModeSymlink != 0) == (c.NewMode == link), nil
	}
	if !strings.HasPrefix(c.NewMode, "100") { // git makes a link at once
		return false, false, nil
	}
	name := filepath.FromSlash(c.Path)
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return false, false, nil //nolint:nilerr // the checkout says what is in the way
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, false, nil //nolint:nilerr // as above
	}
	defer func() { _ = f.Close() }()
	w := &prefix{file: f}
	if err := g.Stream(ctx, nil, w, "cat-file", "--filters", "--path="+c.Path, c.NewID); err != nil { // with its line ends and encoding
		return false, false, err
	}
	return w.ended && !w.differs, w.equal(), nil
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

// equal reports whether the file has what was written to it, and no more.
func (p *prefix) equal() bool {
	if p.differs || p.ended {
		return false
	}
	_, err := io.ReadFull(p.file, make([]byte, 1))
	return errors.Is(err, io.EOF)
}
