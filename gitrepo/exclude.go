package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Exclude has git ignore a file in the worktree, of any directory, by its name in info/exclude of the repository.
// changed is false if git ignores the file already.
func (w Worktree) Exclude(ctx context.Context, path string) (changed bool, err error) {
	g, err := NewGit(w.Root)
	if err != nil {
		return false, err
	}
	_, err = g.Run(ctx, "check-ignore", "--quiet", "--", path)
	if !SaysNo(err) {
		return false, err
	}
	root, err := os.OpenRoot(w.CommonDir) // an agent can have made a link out of a directory that it shares
	if err != nil {
		return false, err
	}
	defer func() { _ = root.Close() }()
	const file = "info/exclude"
	if err := root.MkdirAll("info", 0o777); err != nil {
		return false, err
	}
	content, err := root.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	line := filepath.Base(path) + "\n"
	if len(content) > 0 && !bytes.HasSuffix(content, []byte("\n")) {
		line = "\n" + line
	}
	f, err := root.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return false, err
	}
	if _, err = f.WriteString(line); err != nil {
		err = fmt.Errorf("writing %s: %w", file, err)
	}
	return err == nil, errors.Join(err, f.Close())
}
