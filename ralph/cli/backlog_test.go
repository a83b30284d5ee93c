package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sqlshell"
)

// newShellPlace is a repository with three tasks for the shell agent, of which
// the last one depends on the second, and a deleted one. The programs are
// elsewhere, and the first task has this step.
func newShellPlace(t *testing.T, step string) place {
	t.Helper()
	dir := fs.NewDir(t, "place", fs.WithFile("ralph.toml", "[agent]\nname = \"shell\"\n"),
		fs.WithDir("specs", fs.WithFile("a.md", "A\n"))).Path()
	p := place{dir: dir, env: append(install(t, t.TempDir(), ""), "TMPDIR="+t.TempDir())}
	steps, err := json.Marshal([]string{"echo a >a", step})
	assert.NilError(t, err)
	p.git(t, "init", "--quiet", "--initial-branch=main")
	p.git(t, "remote", "add", "origin", "https://example.com/acme/shop.git")
	p.git(t, "add", "--all")
	p.git(t, "commit", "--quiet", "-m", "start")
	for _, args := range [][]string{
		{"create", "a/01", "First", "-p", "0", "-s", string(steps), "-r", "a.md"},
		{"create", "b/02", "Second", "-p", "1", "-s", `["echo b >b"]`, "-r", "a.md"},
		{"create", "c/03", "Third", "-s", `["echo c >c"]`, "--deps", "b/02", "-r", "a.md"},
		{"create", "made/by-hand", "Deleted before"},
		{"delete", "made/by-hand"},
	} {
		p.task(t, args...)
	}
	return p
}

// build runs the loop, which may end as it wants.
func (p place) build(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := p.command(append([]string{p.program(), "build", "--danger"}, args...)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	_ = cmd.Run() // its words say more
	t.Logf("%s\n%s", &out, &said)
	return out.String(), said.String()
}

func TestDeletedBlockedTasksDoNotCount(t *testing.T) {
	t.Parallel()
	p := newShellPlace(t, "true")
	p.task(t, "block", "made/by-hand", "--by", "c/03")
	stdout, stderr := p.build(t, "-n", "2")
	assert.Assert(t, cmp.Contains(stdout, "2 tasks done, 1 left"), stderr)
}

func TestDamagedBacklogPreventsTheFirstRun(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"build", "plan"} {
		p := newShellPlace(t, "true")
		assert.NilError(t, os.WriteFile(filepath.Join(p.dir, ".ralph", "tasks.db"), []byte("garbage, but long enough"), 0o600))
		out, err := p.command(p.program(), mode, "--danger").CombinedOutput()
		assert.ErrorContains(t, err, "exit status 1")
		assert.Check(t, cmp.Contains(string(out), "tasks.db is damaged: "))
		assert.Check(t, cmp.Contains(string(out), "Hint: move it away to start with an empty backlog"))
		assert.Check(t, !strings.Contains(string(out), "Iteration 1"))
	}
}

func TestUnclaimedFinishedTaskIsChecked(t *testing.T) {
	t.Parallel()
	p := newShellPlace(t, "ralph task update b/02 --status done")
	config := "[agent]\nname = \"shell\"\n[checks]\ncommands = [\"test -e b\"]\n"
	assert.NilError(t, os.WriteFile(filepath.Join(p.dir, "ralph.toml"), []byte(config), 0o600))
	stdout, _ := p.build(t, "-n", "1")
	assert.Check(t, cmp.Contains(stdout, "reopened b/02"))
	assert.Check(t, cmp.Contains(p.task(t, "show", "b/02"), "Status:      open"))
}

func TestTaskDeletedByUserDuringARunStaysDeleted(t *testing.T) {
	t.Parallel()
	p := newShellPlace(t, "env -u RALPH_AGENT_ID ralph task delete c/03")
	stdout, _ := p.build(t)
	assert.Check(t, cmp.Contains(stdout, "All tasks complete"))
	assert.Check(t, cmp.Contains(p.task(t, "show", "c/03"), "Status:      deleted"))
}

// A loop that was suspended beyond its lease has lost its task: its run ends and does
// not count, and the other loop's result stays.
func TestOvertakenLoopStops(t *testing.T) {
	for _, tc := range []struct{ name, rest string }{
		{"the agent finishes", "while [ ! -e $STATE/resumed ]; do sleep 0.01; done"},
		{"the agent works on", "exec sleep 600"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			const second = "touch $STATE/second; while [ ! -e $STATE/finish ]; do sleep 0.01; done"
			p := newShellPlace(t, "if [ -e $STATE/frozen ]; then "+second+"; else touch $STATE/claimed; "+tc.rest+"; fi")
			p.env = append(p.env, "STATE="+state)
			p.task(t, "delete", "b/02")
			p.task(t, "delete", "c/03")
			loop := func(said *bytes.Buffer, ready string) *exec.Cmd {
				cmd := p.command(p.program(), "build", "--danger", "-n", "1")
				cmd.Stdout, cmd.Stderr = said, said
				assert.NilError(t, cmd.Start())
				poll.WaitOn(t, poll.FileExists(filepath.Join(state, ready)))
				return cmd
			}
			touch := func(file string) { assert.NilError(t, os.WriteFile(filepath.Join(state, file), nil, 0o600)) }
			var said, saidNext bytes.Buffer
			frozen := loop(&said, "claimed")
			assert.NilError(t, frozen.Process.Signal(syscall.SIGSTOP)) // its agent works on
			touch("frozen")
			p.sql(t, "UPDATE tasks SET lease_expires_at = '2001-01-01 00:00:00' WHERE status = 'active'")
			next := loop(&saidNext, "second")

			held := p.task(t, "list")
			touch("resumed")
			assert.NilError(t, frozen.Process.Signal(syscall.SIGCONT))
			_ = frozen.Wait()
			assert.Check(t, cmp.Contains(said.String(), "Warning: another agent has claimed a/01, because the lease had expired"))
			assert.Check(t, cmp.Contains(said.String(), "Iteration 1: overtaken a/01 | "))
			assert.Check(t, cmp.Contains(said.String(), "Total: 1 run, 0 tasks done, 1 left, 0 commits"))
			assert.Equal(t, p.task(t, "list"), held)
			touch("finish")
			assert.NilError(t, next.Wait(), saidNext.String())
			assert.Check(t, cmp.Contains(saidNext.String(), "Iteration 1: done a/01"))
		})
	}
}

func (p place) sql(t *testing.T, text string) {
	t.Helper()
	_, err := sqlshell.Run(t.Context(), filepath.Join(p.dir, ".ralph", "tasks.db"), text)
	assert.NilError(t, err)
}
