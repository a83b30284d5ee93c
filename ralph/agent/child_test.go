package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

func sh(script string) *exec.Cmd { return exec.Command("sh", "-c", script) }

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		want         int
	}{
		{"success", "exit 0", 0},
		{"failure", "exit 7", 7},
		{"signal", "kill -TERM $$", 128 + 15},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := StartChild(sh(tc.script))
			assert.NilError(t, err)
			code, err := c.Wait()
			assert.NilError(t, err)
			assert.Equal(t, code, tc.want)
		})
	}
}

func TestMissingProgram(t *testing.T) {
	_, err := StartChild(exec.Command("/no/such/program"))
	assert.ErrorContains(t, err, "starting /no/such/program")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestChildHasNoTerminalAndItsOwnGroup(t *testing.T) {
	c, err := StartChild(sh(`[ "$(ps -o pgid= -p $$ | tr -d ' ')" = $$ ] && ! cat </dev/tty 2>/dev/null`))
	assert.NilError(t, err)
	code, err := c.Wait()
	assert.NilError(t, err)
	assert.Equal(t, code, 0)
}

func TestInterruptReachesTheWholeGroup(t *testing.T) {
	dir := t.TempDir()
	c, err := StartChild(exec.Command("sh", "-c", `trap 'exit 9' INT
		sh -c 'trap "echo >$0/inner; exit" INT; echo >$0/ready; while :; do sleep 0.05; done' "$0"`, dir))
	assert.NilError(t, err)
	poll.WaitOn(t, fileExists(filepath.Join(dir, "ready")))
	c.Interrupt()
	code, err := c.Wait()
	assert.NilError(t, err)
	assert.Equal(t, code, 9)
	poll.WaitOn(t, fileExists(filepath.Join(dir, "inner")))
}

// Agents run tools in new sessions, which a signal to the group does not reach.
const escaping = `setsid sh -c 'trap "" INT TERM HUP; echo $$ >"$1/escaped"; sleep 600' sh "$0" &
	(setsid sh -c 'echo $$ >"$1/orphan"; exec sleep 600' sh "$0" &) &
	while [ ! -s "$0/escaped" ] || [ ! -s "$0/orphan" ]; do sleep 0.01; done; `

func TestKillReachesEscapedDescendants(t *testing.T) {
	dir := t.TempDir()
	c, err := StartChild(exec.Command("sh", "-c", escaping+`trap "" INT; echo >"$0/ready"; while :; do sleep 1; done`, dir))
	assert.NilError(t, err)
	poll.WaitOn(t, fileExists(filepath.Join(dir, "ready")))
	c.Kill()
	code, err := c.Wait()
	assert.NilError(t, err)
	assert.Equal(t, code, 128+9)
	assertGone(t, filepath.Join(dir, "escaped"))
	assertGone(t, filepath.Join(dir, "orphan"))
}

func TestWaitKillsLeftoverProcesses(t *testing.T) {
	bystander := exec.Command("sleep", "600")
	assert.NilError(t, bystander.Start())
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()

	dir := t.TempDir()
	c, err := StartChild(exec.Command("sh", "-c", escaping+"exit 3", dir))
	assert.NilError(t, err)
	code, err := c.Wait()
	assert.NilError(t, err)
	assert.Equal(t, code, 3)
	assertGone(t, filepath.Join(dir, "escaped"))
	assertGone(t, filepath.Join(dir, "orphan"))
	assert.NilError(t, bystander.Process.Signal(syscall.Signal(0)), "an unrelated child was killed")
}

// TestParentDeath runs a parent that is killed and watches its child.
func TestParentDeath(t *testing.T) {
	if dir := os.Getenv("PROC_TEST_PARENT"); dir != "" {
		c, err := StartChild(exec.Command("sh", "-c", `echo $$ >"$0/child"; exec sleep 600`, dir))
		assert.NilError(t, err)
		_, _ = c.Wait()
		return
	}
	dir := t.TempDir()
	parent := exec.Command(os.Args[0], "-test.run=^TestParentDeath$")
	parent.Env = append(os.Environ(), "PROC_TEST_PARENT="+dir)
	assert.NilError(t, parent.Start())
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if b, _ := os.ReadFile(filepath.Join(dir, "child")); len(b) > 0 {
			return poll.Success()
		}
		return poll.Continue("the child has not started")
	})
	assert.NilError(t, parent.Process.Kill())
	_ = parent.Wait()
	assertGone(t, filepath.Join(dir, "child"))
}

func fileExists(path string) poll.Check { return poll.FileExists(path) }

// assertGone waits until the process whose id is in the file is no more.
func assertGone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	assert.NilError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	assert.NilError(t, err)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return poll.Success()
		}
		return poll.Continue("process %d lives", pid)
	}, poll.WithTimeout(10*time.Second))
}
