//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestLogsOfALoop(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		res := w.ralph(t, "logs").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: no loop of main has a log in "+w.repo+`. Start one with "docker ralph build"`))
		res = w.ralph(t, "logs", "--follow").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "no loop of main has a log"))

		slow := slowTask()
		slow.Priority = 1
		w.plan(t, task{ID: "a", Title: "Talk", Steps: []string{"echo word of a"}}, slow)
		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		follow := start(t, w.docker("ralph", "logs", "-f"))
		follow.stdout.waitFor(t, "word of a")
		so := w.ok(t, "logs")
		assert.Check(t, is.Contains(so, "word of a"))
		assert.Check(t, !strings.Contains(so, "All tasks complete"))
		w.write(t, filepath.Join(w.repo, "go"), "")
		printed := build.wait(t).expect(t, 0).stdout
		followed := follow.wait(t).expect(t, 0)
		assert.Check(t, is.Equal(followed.stderr, ""))

		// Without the terminal's part it is what the loop has printed.
		whole := w.ok(t, "logs")
		assert.Check(t, is.Equal(whole, followed.stdout))
		before, _, _ := strings.Cut(printed, "deregistered")
		assert.Check(t, is.Equal(whole, before))

		one := w.ok(t, "logs", "--iteration", "1")
		assert.Check(t, is.Contains(one, "Iteration 1: done a"))
		assert.Check(t, !strings.Contains(one, "Mode:   build"))
		assert.Check(t, !strings.Contains(one, "Iteration 2"))
		raw := w.ok(t, "logs", "--raw", "--iteration", "1")
		assert.Check(t, is.Contains(raw, "word of a"))
		assert.Check(t, !strings.Contains(raw, "Iteration 1"))
		res = w.ralph(t, "logs", "--iteration", "9").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "has no iteration 9"))
		w.ralph(t, "logs", "--iteration", "0").expect(t, 1)
	})
}

// The exit code of a loop is that of whoever follows it.
func TestFollowingALoopEndsWithItsExitCode(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "bad", Title: "Fail", Steps: []string{"exit 3"}})
		w.ralph(t, "build", "--max-failures", "1").expect(t, 6)
		follow := w.ralph(t, "logs", "-f").expect(t, 6)
		assert.Check(t, is.Contains(follow.stdout, "Error: "))
	})
}

// A loop that was killed with its sandbox and its command cannot say how it ended.
// Nobody waits for it for ever.
func TestFollowingALoopThatIsKilledEnds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		follow := start(t, w.docker("ralph", "logs", "-f"))
		follow.stdout.waitFor(t, "Mode:")
		build.signalGroup(syscall.SIGKILL) // or else it would start the loop again
		build.wait(t)
		run(t, w.docker("kill", w.sandbox(t).ID)).expect(t, 0)
		res := follow.wait(t).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "nothing says how"))
	})
}

// A loop that is started again after its sandbox was killed is followed to its end.
func TestFollowingALoopThatIsStartedAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		follow := start(t, w.docker("ralph", "logs", "-f"))
		follow.stdout.waitFor(t, "Mode:")
		assert.NilError(t, os.Remove(filepath.Join(w.repo, "begun")))
		run(t, w.docker("kill", w.sandbox(t).ID)).expect(t, 0)
		appears(t, filepath.Join(w.repo, "begun"))
		w.write(t, filepath.Join(w.repo, "go"), "")
		build.wait(t).expect(t, 0)
		res := follow.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "All tasks complete"))
	})
}

// What an agent has put where the logs are reaches nobody's terminal.
func TestLogsOfAnAgentThatLies(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "evil", Title: "Lie", Steps: []string{
			`printf 'red \033]0;title\007\033[31mword\n'`,
			`cd .ralph/logs/*-build; printf '\033]52;c;aGk=\007planted\n' >>0.log; ln -s /etc/passwd 7.log`,
		}})
		w.ok(t, "build")
		res := w.ralph(t, "logs").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "7.log in the log is no plain file"))
		assert.Check(t, is.Contains(res.stdout, "planted"))
		assert.Check(t, !strings.Contains(res.stdout, "root:"))
		assert.Check(t, !strings.Contains(res.stdout, "\x1b]"))
		logs, err := filepath.Glob(filepath.Join(w.repo, ".ralph", "logs", "*", "7.log"))
		assert.NilError(t, err)
		assert.Equal(t, len(logs), 1)
		assert.NilError(t, os.Remove(logs[0]))
		w.ok(t, "logs")
	})
}
