package gitsync

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
)

// A named pipe that an agent has left where git opens a file is named, and no command hangs at it.
func TestNamedPipesInTheSandboxAreReported(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(ctx context.Context, w *fixture) error{
		"push": func(ctx context.Context, w *fixture) error {
			w.write("a.txt", "user's\n")
			w.git("commit", "-q", "--allow-empty", "-am", "user")
			_, err := w.repo.Push(ctx, w.sh)
			return err
		},
		"edits": func(ctx context.Context, w *fixture) error {
			_, _, err := w.repo.FetchEdits(ctx, w.sh)
			return err
		},
		"count of edits": func(ctx context.Context, w *fixture) error {
			_, err := w.repo.CountEdits(ctx, w.sh)
			return err
		},
		"removal": func(ctx context.Context, w *fixture) error { return w.repo.SaveUncommitted(ctx, w.sh) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			w.fetch()
			w.writeInside("dir/new.txt", "agent's\n")
			w.mkfifo(w.work, "dir/.gitattributes")
			w.mkfifo(w.work, "dir/.gitignore")
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()

			err := script(ctx, w)

			blocked, is := errors.AsType[*BlockedError](err)
			assert.Assert(t, is, "%v", err)
			assert.Equal(t, filepath.Dir(blocked.Path), "dir")
			assert.DeepEqual(t, hint.Of(err), []string{`remove it with "docker ralph shell -- rm ` + blocked.Path + `"`})
			for _, file := range []string{"dir/.gitattributes", "dir/.gitignore"} {
				assert.NilError(t, os.Remove(filepath.Join(w.work, file)))
			}
			assert.NilError(t, script(ctx, w))
		})
	}
}
