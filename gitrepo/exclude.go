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
	file := filepath.Join(w.CommonDir, "info", "exclude")
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil { //nolint:gosec // as git
		return false, err
	}
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	line := filepath.Base(path) + "\n"
	if len(content) > 0 && !bytes.HasSuffix(content, []byte("\n")) {
		line = "\n" + line
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666) //nolint:gosec // as git
	if err != nil {
		return false, err
	}
	if _, err = f.WriteString(line); err != nil {
		err = fmt.Errorf("writing %s: %w", file, err)
	}
	return err == nil, errors.Join(err, f.Close())
}
