//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// forgeProgram is a fake program of a forge: it records its arguments and its input beside its directory.
const forgeProgram = `
printf '%s\n' "$@" >"$(dirname "$0")/../args"
cat >"$(dirname "$0")/../input"
echo https://forge.example/1`

// forges are the programs of the user that a pull request needs, without any of a forge that this machine may have.
type forges struct {
	world *world
	dir   string
}

// useForges leaves the user no other programs. Git reaches a bare repository through a fake ssh.
func (w *world) useForges(t *testing.T, origin string) forges {
	t.Helper()
	f := forges{w, filepath.Join(w.dir, "forge")}
	f.program(t, "ssh", `exec git receive-pack "`+origin+`"`)
	for _, name := range []string{"git", "sh", "cat", "dirname"} {
		path, err := exec.LookPath(name)
		assert.NilError(t, err)
		assert.NilError(t, os.Symlink(path, f.path(name)))
	}
	w.setenv("PATH", shared.bin+":"+filepath.Dir(f.path("git")))
	return f
}

func (f forges) path(name string) string { return filepath.Join(f.dir, "bin", name) }

// program makes a shell script a program of the user.
func (f forges) program(t *testing.T, name, script string) {
	t.Helper()
	f.world.write(t, f.path(name), "#!/bin/sh\n"+script+"\n")
	assert.NilError(t, os.Chmod(f.path(name), 0o755))
}

func (f forges) recorded(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(f.dir, name))
	assert.NilError(t, err)
	return string(content)
}

// A loop's branch is pushed, and proposed with what its receipts say: by the program of the forge, or at a URL.
func TestPullRequest(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		origin := filepath.Join(w.dir, "origin.git")
		w.git(t, "clone", "-q", "--bare", w.repo, origin)
		w.git(t, "remote", "set-url", "origin", "git@github.com:"+w.slug+".git")
		w.git(t, "update-ref", "refs/remotes/origin/main", "main")
		w.git(t, "switch", "-qc", "feature")
		w.configure(t, "[checks]\ncommands = [\"test -e a.txt\"]\n")
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "Check for a")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ok(t, "build")
		f := w.useForges(t, origin)
		pushed := func() string {
			return strings.TrimSpace(w.git(t, "ls-remote", origin, "refs/heads/feature"))
		}

		f.program(t, "gh", forgeProgram)
		out := w.ok(t, "pr", "--dry-run")
		assert.Check(t, is.Contains(out, "Add a\n\n| task | title | checks | model | cost of the run |\n"))
		assert.Equal(t, pushed(), "")

		assert.Equal(t, w.ok(t, "pr"), "https://forge.example/1\n")
		tip := w.git(t, "rev-parse", "HEAD")
		assert.Equal(t, pushed(), tip+"\trefs/heads/feature")
		assert.Equal(t, f.recorded(t, "args"), "pr\ncreate\n--repo=github.com/"+w.slug+"\n--head=feature\n--base=main\n--title=Add a\n--body-file=-\n--draft\n")
		assert.Check(t, is.Contains(f.recorded(t, "input"), "| `a` | `Add a` | `test -e a.txt` passed in 0s |"))
		assert.Check(t, is.Contains(f.recorded(t, "input"), "1 task, 2 commits, $0.00. Made with [docker ralph]"))

		assert.NilError(t, os.Remove(f.path("gh")))
		res := w.ralph(t, "pr", "--draft=false", "--title", "Mine").expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "https://github.com/"+w.slug+"/compare/main...feature?expand=1&body="))
		assert.Check(t, is.Contains(res.stdout, "&title=Mine\n"))
		assert.Check(t, is.Contains(res.stderr, "Open the pull request at this URL:\n"))

		w.git(t, "remote", "set-url", "origin", "git@gitlab.com:"+w.slug+".git")
		f.program(t, "glab", forgeProgram)
		w.ok(t, "pr", "--draft=false")
		assert.Check(t, is.Contains(f.recorded(t, "args"), "mr\ncreate\n--yes\n--repo=https://gitlab.com/"+w.slug+"\n--source-branch=feature\n--target-branch=main\n--title=Add a\n--description=| task |"))
		assert.Check(t, !strings.Contains(f.recorded(t, "args"), "--draft"))
	})
}
