//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
)

// lfsPointer is what the filter of Git LFS commits.
const lfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

// useManyTools commits what a repository has that is worked on with a submodule, Git LFS, git-crypt and husky, and
// what their users have beside it. Programs that encode as the real ones do stand for the filters.
func (w *world) useManyTools(t *testing.T) {
	t.Helper()
	sub := filepath.Join(w.dir, "sub")
	w.git(t, "clone", "-q", w.repo, sub)
	w.git(t, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "vendored")
	for name, clean := range map[string]string{"lfs": "cat >/dev/null; printf '" + strings.ReplaceAll(lfsPointer, "\n", `\n`) + "'", "git-crypt": `printf '\0GITCRYPT\0'; cat`} {
		w.git(t, "config", "filter."+name+".clean", clean)
		w.git(t, "config", "filter."+name+".smudge", "cat")
		w.git(t, "config", "filter."+name+".required", "true")
	}
	for name, content := range map[string]string{
		".gitattributes":              "*.bin filter=lfs -text\n*.key filter=git-crypt\n",
		".gitignore":                  "/.venv/\n/node_modules/\n",
		"large.bin":                   "large\n",
		"secret.key":                  "secret\n",
		".husky/pre-commit":           "exit 1\n",
		".venv/bin/python":            "#!/bin/sh\n",
		"node_modules/left/index.js":  "1\n",
		"node_modules/left/.git/HEAD": "ref: refs/heads/main\n",
	} {
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(w.repo, name)), 0o755))
		w.write(t, filepath.Join(w.repo, name), content)
	}
	assert.NilError(t, os.Chmod(filepath.Join(w.repo, ".husky", "pre-commit"), 0o755))
	w.git(t, "add", "-A")
	w.git(t, "commit", "-qm", "tools")
	w.git(t, "config", "core.hooksPath", ".husky")
}

// assertTools asserts that a loop has delivered files, and nothing else has changed.
func (w *world) assertTools(t *testing.T, start string, files ...string) {
	t.Helper()
	assert.Equal(t, w.git(t, "diff", "--name-only", start, "main"), strings.Join(files, "\n"))
	assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	for name, content := range map[string]string{"large.bin": "large\n", "secret.key": "secret\n", ".venv/bin/python": "#!/bin/sh\n", "node_modules/left/index.js": "1\n"} {
		assert.Equal(t, w.read(t, name), content)
	}
}

// Whatever tools a repository is worked on with, agents deliver files, and changes that only the user's tools can
// encode open their task again.
func TestRepositoryWithManyTools(t *testing.T) {
	t.Run("shell", func(t *testing.T) {
		withClone(t, func(t *testing.T, w *world) {
			w.useManyTools(t)
			start := w.git(t, "rev-parse", "main")
			w.plan(t,
				task{ID: "a", Title: "Change encoded files", Steps: []string{"echo raw > large.bin; echo raw > secret.key; echo a > a.txt"}},
				task{ID: "b", Title: "Add b", Priority: 1, Steps: []string{"test ! -e .venv && test ! -e node_modules && mkdir .venv node_modules && echo x > .venv/x && echo b > b.txt"}})
			res := w.ralph(t, "build").expect(t, 10)
			for path, filter := range map[string]string{"large.bin": "lfs", "secret.key": "git-crypt"} {
				assert.Check(t, is.Contains(res.stderr, `Warning: left out of the commits: "`+path+`" needs the git filter "`+filter+`"`))
			}
			assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "blocked", "b": "done"})
			w.assertTools(t, start, "b.txt")
			assert.Equal(t, w.git(t, "diff", "--name-only", start, w.sandboxRef(t, "attempts/a/1")), "a.txt")

			res = w.ralph(t, "shell", "--", "sh", "-c", "echo raw > large.bin").expect(t, 0)
			assert.Check(t, is.Contains(res.stderr, "Changes in 1 file are not committed"))
			assert.Check(t, is.Contains(w.ok(t, "diff"), "large.bin"))
			w.assertTools(t, start, "b.txt")
		})
	})
	t.Run("claude", func(t *testing.T) {
		withClone(t, func(t *testing.T, w *world) {
			base := claudeBase(t, w)
			w.useManyTools(t)
			start := w.git(t, "rev-parse", "main")
			_, url := w.serveModel(t, [][]modelapi.Turn{w.buildTurns("shop/01", "one")})
			w.setenv("ANTHROPIC_BASE_URL", url)
			w.setenv("ANTHROPIC_API_KEY", "sk-ant-e2e-many-tools")
			flags := []string{"--agent", "claude", "--base", base}
			w.ralph(t, append(flags, "task", "create", "shop/01", "Add one")...).expect(t, 0)
			w.ralph(t, append(flags, "build", "-n", "1")...).expect(t, 0)
			w.assertTools(t, start, "one")
		})
	})
}
