//go:build unix

package worktrees

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// git opens what is called so when it compares files.
func TestStatusDoesNotWaitAtAPipe(t *testing.T) {
	for _, name := range []string{".gitattributes", "dir/.gitignore"} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			tree := add(t, open(t, root), "x", "x")
			r := open(t, root)
			assert.NilError(t, os.Mkdir(filepath.Join(tree.Path, "dir"), 0o755))
			assert.NilError(t, os.WriteFile(filepath.Join(tree.Path, "dir", "file"), nil, 0o644))
			assert.NilError(t, os.WriteFile(filepath.Join(tree.Path, "first"), []byte("FIRST"), 0o644))
			assert.NilError(t, syscall.Mkfifo(filepath.Join(tree.Path, name), 0o600))
			ctx, cancel := context.WithTimeout(t.Context(), r.timeout/2)
			defer cancel()
			_, err := r.Status(ctx, find(t, r, "x"))
			assert.ErrorContains(t, err, name+": not a regular file")
		})
	}
}
