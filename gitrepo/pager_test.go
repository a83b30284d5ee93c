//go:build unix

package gitrepo

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/creack/pty"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// An agent can have configured programs for every step of showing changes.
func TestShowingChangesRunsNoProgramOfTheRepository(t *testing.T) {
	top, home := t.TempDir(), t.TempDir()
	marker := filepath.Join(home, "ran")
	evil := "touch " + marker + "; cat"
	t.Setenv("HOME", home)
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, ".gitconfig"))
	t.Setenv("GIT_PAGER", "")
	assert.NilError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[core]\npager = sed s/added/shown/\n[user]\nname = u\nemail = u@example.com\n"), 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(top, "a.txt"), []byte("added\n"), 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(top, ".gitattributes"), []byte("*.txt diff=evil filter=evil\n"), 0o600))
	g, err := NewGit(top)
	assert.NilError(t, err)
	run := func(args ...string) {
		t.Helper()
		_, err := g.Run(t.Context(), args...)
		assert.NilError(t, err)
	}
	run("init", "-q")
	run("add", "-A")
	run("commit", "-q", "-m", "first")
	for _, key := range []string{"core.pager", "pager.log", "pager.diff", "diff.external", "diff.evil.textconv", "diff.evil.command", "gpg.program", "core.fsmonitor", "core.sshCommand", "filter.evil.clean"} {
		run("config", key, evil)
	}
	run("config", "log.showSignature", "true")
	run("config", "format.pretty", "%G?%H")
	assert.NilError(t, os.WriteFile(filepath.Join(top, "a.txt"), []byte("added later\n"), 0o600))

	for name, command := range map[string]func(context.Context) (*exec.Cmd, error){"log": g.Log, "diff": g.Diff} {
		command, err := command(t.Context())
		assert.NilError(t, err)
		terminal, err := pty.Start(command)
		assert.NilError(t, err)
		out := make([]byte, 64<<10)
		var shown string
		for err == nil {
			var n int
			n, err = terminal.Read(out)
			shown += string(out[:n])
		}
		assert.NilError(t, command.Wait())
		assert.NilError(t, terminal.Close())
		assert.Check(t, is.Contains(shown, "shown"), "%s has the user's pager: %s", name, shown)
	}
	_, err = os.Lstat(marker)
	assert.Assert(t, os.IsNotExist(err), "a program of the repository ran")
}
