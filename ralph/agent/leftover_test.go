package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
)

// assertNoneOf waits until no process lives that was started with DIR=dir.
func assertNoneOf(t *testing.T, dir string) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if left := of(dir); len(left) > 0 {
			return poll.Continue("processes %v live", left)
		}
		return poll.Success()
	}, poll.WithTimeout(20*time.Second))
}

func of(dir string) []int {
	var found []int
	processes, _ := sysinfo.Processes(sysinfo.Proc)
	for _, pid := range processes {
		if sysinfo.Environ(sysinfo.Proc, pid, "DIR") == dir {
			found = append(found, pid)
		}
	}
	return found
}

// After Wait, even daemons that are hard to kill are dead.
func TestDaemonsAreKilledWithTheRun(t *testing.T) {
	for name, daemon := range map[string]string{
		"restarts what is killed": `setsid sh -c 'while :; do setsid sh -c "echo >>$DIR/ready; exec sleep 600" & wait $!; sleep 0.05; done' &`,
		"double fork":             `(setsid sh -c 'echo >>$DIR/ready; nohup sleep 600 >/dev/null' &) &`,
		"never the same process":  `printf 'echo >>$DIR/ready; setsid sh $DIR/hop & exit' >$DIR/hop; setsid sh $DIR/hop &`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := sh(daemon + ` while [ ! -s $DIR/ready ]; do sleep 0.01; done`)
			cmd.Env = append(os.Environ(), "DIR="+dir)
			c, err := StartChild(cmd)
			assert.NilError(t, err)
			_, err = c.Wait()
			assert.NilError(t, err)
			assert.Equal(t, len(of(dir)), 0)
		})
	}
}

func TestManyProcessesAreKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := sh(`i=0; while [ $i -lt 300 ]; do sleep 600 & i=$((i+1)); done; echo >$DIR/ready; wait`)
	cmd.Env = append(os.Environ(), "DIR="+dir)
	c, err := StartChild(cmd)
	assert.NilError(t, err)
	poll.WaitOn(t, poll.FileExists(filepath.Join(dir, "ready")), poll.WithTimeout(time.Minute))
	c.Kill()
	_, err = c.Wait()
	assert.NilError(t, err)
	assert.Equal(t, len(of(dir)), 0)
}

func TestLeftoversOfAKilledRalphAreKilled(t *testing.T) {
	if dir := os.Getenv("PROC_TEST_LEFTOVERS"); dir != "" {
		c, err := StartChild(exec.Command("sh", "-c", `setsid sh -c 'while :; do sleep 0.05; done' & echo $$ >"$0/agent"; exec sleep 600`, dir))
		assert.NilError(t, err)
		_, _ = c.Wait()
		return
	}
	alive, err := StartChild(sh("sleep 600"))
	assert.NilError(t, err)
	defer func() { alive.Kill(); _, _ = alive.Wait() }()
	dir := t.TempDir()
	ralph := exec.Command(os.Args[0], "-test.run=^TestLeftoversOfAKilledRalphAreKilled$")
	ralph.Env = append(os.Environ(), "PROC_TEST_LEFTOVERS="+dir, "DIR="+dir)
	assert.NilError(t, ralph.Start())
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if b, _ := os.ReadFile(filepath.Join(dir, "agent")); len(b) > 0 {
			return poll.Success()
		}
		return poll.Continue("the agent has not started")
	}, poll.WithTimeout(20*time.Second))
	assert.NilError(t, ralph.Process.Kill())
	_ = ralph.Wait()
	assert.Assert(t, len(of(dir)) > 0, "nothing is left")
	assert.Assert(t, KillLeftovers() > 0)
	assertNoneOf(t, dir)
	assert.Assert(t, runOf(alive.cmd.Process.Pid) != "", "a process of a living ralph was ended")
}

func TestProcessesOfNestedNamespacesAreNotLeftovers(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace string
		want      bool
	}{"this one": {namespace(), true}, "another": {"pid:[1]", false}} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sleep", "600")
			cmd.Env = append(os.Environ(), RunEnv+"=1.0."+tc.namespace)
			assert.NilError(t, cmd.Start())
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			assert.Equal(t, slices.Contains(leftovers(), cmd.Process.Pid), tc.want)
		})
	}
}

func TestAgentsAreKilledFirstWhenOutOfMemory(t *testing.T) {
	c, err := StartChild(sh("sleep 600"))
	assert.NilError(t, err)
	defer func() { c.Kill(); _, _ = c.Wait() }()
	score, err := os.ReadFile(fmt.Sprintf("/proc/%s/oom_score_adj", strconv.Itoa(c.cmd.Process.Pid)))
	assert.NilError(t, err)
	assert.Equal(t, string(score), oomScoreAdj+"\n")
}
