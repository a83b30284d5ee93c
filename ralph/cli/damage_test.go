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
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// damage is what an agent does to the backlog in the first of its tasks.
type damage struct {
	name, step string
	// reason is why the run failed. status is what became of its task; it is done
	// where the agent could still say so.
	reason, status string
}

var damages = []damage{
	{"git clean", "git clean -fdxq", "the task database was removed", "done"},
	{"folder removed", "rm -rf .ralph", "the task database was removed", "done"},
	{"folder replaced by a link", "rm -rf .ralph; ln -s /tmp .ralph", "the task database was replaced by a symbolic link", "done"},
	{"folder replaced by a file", "rm -rf .ralph; echo x >.ralph", "the task database was replaced by a file", "done"},
	{"database removed", "rm .ralph/tasks.db", "the task database was removed", "done"},
	{"database emptied", ": >.ralph/tasks.db", "the task database was ", ""},
	{"database replaced by a link", "ln -sf /etc/hostname .ralph/tasks.db", "the task database was replaced by a symbolic link", ""},
	{"database replaced by a pipe", "rm -f .ralph/tasks.db*; mkfifo .ralph/tasks.db", "the task database was replaced by a special file", ""},
	{"database replaced by a folder", "rm -f .ralph/tasks.db*; mkdir .ralph/tasks.db", "the task database was replaced by a directory", ""},
	{"permissions", "chmod 0 .ralph/tasks.db", "the task database lost its permissions", ""},
	{"garbage", "head -c 20000 /dev/urandom >.ralph/tasks.db; rm -f .ralph/tasks.db-*", "the task database was damaged", ""},
	{"another database", "rm -f .ralph/tasks.db*; sqlite3 .ralph/tasks.db 'CREATE TABLE tasks (x)'", "the task database was damaged", ""},
	{"tables dropped", "sqlite3 .ralph/tasks.db 'DROP TABLE tasks; DROP TABLE agents'", "4 tasks were removed from the backlog", ""},
	{"rows deleted", "sqlite3 .ralph/tasks.db 'PRAGMA foreign_keys = ON; DELETE FROM tasks'", "4 tasks were removed from the backlog", ""},
	{"rows marked as deleted", `sqlite3 .ralph/tasks.db "UPDATE tasks SET status = 'deleted'"`, "3 tasks were deleted that the run had not created", ""},
	{"delete --all", "ralph task delete --all --confirm", "3 tasks were deleted that the run had not created", ""},
	{"delete", "ralph task delete c/03", "1 task was deleted that the run had not created", "done"},
	{"delete by an update", "ralph task update c/03 --status deleted", "1 task was deleted that the run had not created", "done"},
	{"plan of something else", `echo '{"id":"c/99","t":"Other","spec":"a.md"}' | ralph task plan-sync`, "3 tasks were deleted that the run had not created", ""},
}

// After any damage by an agent, the backlog has all tasks and the run's results, the run
// has failed, and the loop continues.
func TestBacklogSurvivesTheAgent(t *testing.T) {
	for _, tc := range damages {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newShellPlace(t, tc.step)
			stdout, stderr := p.build(t, "-n", "2")
			assert.Check(t, cmp.Contains(stderr, "Warning: the agent damaged the backlog, which has been restored: "+tc.reason))
			assert.Check(t, cmp.Contains(stdout, "Iteration 1: failed"))
			assert.Check(t, cmp.Contains(stdout, "Iteration 2: done b/02"))
			assert.Check(t, !strings.Contains(stdout, "All tasks complete"))
			first := p.task(t, "show", "a/01", "--with-deps")
			if tc.status != "" {
				assert.Check(t, cmp.Contains(first, "Status:      "+tc.status))
			}
			third := p.task(t, "show", "c/03")
			assert.Check(t, cmp.Contains(third, "Status:      open"))
			assert.Check(t, cmp.Contains(third, "b/02 (done)"))
			assert.Check(t, cmp.Contains(p.task(t, "list", "--all"), "made/by-hand"), "another scope's or a deleted task is missing")
			assert.Equal(t, p.task(t, "agent", "list"), "")
			p.assertLog(t, "1.log", "Iteration 1: failed")
			p.assertLog(t, "2.log", "Iteration 2: done b/02")
			p.assertLog(t, "1.jsonl", "Task a/01: First")
			p.assertLog(t, "loop.json", `"stop": "`)
			p.assertLog(t, "iterations.jsonl", "damaged the backlog")
			ignored, err := os.ReadFile(filepath.Join(p.dir, ".ralph", ".gitignore"))
			assert.NilError(t, err)
			assert.Equal(t, string(ignored), "*\n")
			assert.Equal(t, p.gitStatus(t), "")
		})
	}
}

func TestLoopCompletesAfterDamage(t *testing.T) {
	t.Parallel()
	p := newShellPlace(t, "git clean -fdxq")
	stdout, stderr := p.build(t)
	assert.Assert(t, cmp.Contains(stdout, "All tasks complete"), stderr)
	assert.Assert(t, cmp.Contains(p.task(t, "plan-status"), "0 open, 0 active, 3 done"))
}

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

// assertLog looks into the log of the only loop.
func (p place) assertLog(t *testing.T, file, want string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(p.dir, ".ralph", "logs", "*-build", file))
	assert.NilError(t, err)
	assert.Equal(t, len(found), 1, file)
	content, err := os.ReadFile(found[0])
	assert.NilError(t, err)
	assert.Check(t, cmp.Contains(string(content), want))
}

func (p place) gitStatus(t *testing.T) string {
	t.Helper()
	return p.git(t, "status", "--porcelain")
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
		assert.Check(t, cmp.Contains(string(out), `Hint: restore a copy with "docker ralph task restore"`))
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
	p := newShellPlace(t, "env -u RALPH_RUN_RECORD -u RALPH_AGENT_ID ralph task delete c/03")
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

func TestBacklogIsRestoredBeforeTheFirstRun(t *testing.T) {
	own := tasks{path: filepath.Join(t.TempDir(), ".ralph", "tasks.db"), scope: backlog.Scope{Repo: "acme/shop", Branch: "main"}}
	assert.NilError(t, own.with(t.Context(), func(s *backlog.Store) error {
		return s.Create(t.Context(), backlog.NewTask{Slug: "a", Title: "A"})
	}))
	p := protected{tasks: own}
	a, err := p.register(t.Context())
	assert.NilError(t, err)
	assert.NilError(t, os.RemoveAll(filepath.Dir(own.path)))
	damage, err := p.Restore(t.Context(), a.id)
	assert.NilError(t, err)
	assert.Equal(t, damage, "the task database was removed, 1 task was removed from the backlog")
	all, err := own.Tasks(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, all["a"].Status, backlog.StatusOpen)
}

func TestLockedBacklogIsRetried(t *testing.T) {
	var said bytes.Buffer
	p := protected{stderr: &said}
	tries := 0
	err := p.retryLocked(t.Context(), func() error {
		if tries++; tries < 2 {
			return backlog.ErrLocked
		}
		return nil
	})
	assert.NilError(t, err)
	assert.Equal(t, said.String(), "Warning: the backlog is locked by another process; retrying\n")
	tries = 0
	err = p.retryLocked(t.Context(), func() error { tries++; return backlog.ErrLocked })
	assert.ErrorIs(t, err, backlog.ErrLocked)
	assert.Equal(t, tries, lockTries)
}

func (p place) sql(t *testing.T, text string) {
	t.Helper()
	_, err := sqlshell.Run(t.Context(), filepath.Join(p.dir, ".ralph", "tasks.db"), text)
	assert.NilError(t, err)
}
