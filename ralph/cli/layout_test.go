//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/ralph/loop"
)

// TestInterruptDuringRelease presses Ctrl+C until ralph is gone. A task program
// that takes its time still gives the task back, and the agent up.
func TestInterruptDuringRelease(t *testing.T) {
	p := newPlace(t, "#!/bin/sh\ntrap '' INT\ntouch ready\nwhile :; do sleep 0.05; done\n")
	out, err := p.command(filepath.Join(p.dir, ".bin", "ralph"), "install-layout", "prog").CombinedOutput()
	assert.NilError(t, err, string(out))
	calls := filepath.Join(p.dir, "calls")
	stub := `#!/bin/sh
case "$1 $2" in
'agent register') echo 3c9e ;;
'plan-status '*) echo '1 open, 0 active' ;;
'list --status') echo 'id: a/01' ;;
fail* | 'agent deregister') sleep 0.5 ;;
esac
echo "$*" >>` + calls + "\n"
	task := filepath.Join(p.dir, "prog", "lib", "task")
	assert.NilError(t, os.Remove(task))
	writeProgram(t, task, stub)

	cmd := p.command(filepath.Join(p.dir, "prog", "ralph.sh"), "build")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	assert.NilError(t, cmd.Start())
	poll.WaitOn(t, poll.FileExists(filepath.Join(p.dir, "ready")))
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		select {
		case err = <-done:
			return poll.Success()
		default:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // to the whole group, as a terminal does
			return poll.Continue("ralph is still there")
		}
	}, poll.WithDelay(100*time.Millisecond))
	assert.Equal(t, cmd.ProcessState.ExitCode(), loop.Interrupted.ExitCode(), "%v", err)
	b, err := os.ReadFile(calls)
	assert.NilError(t, err)
	assert.Equal(t, string(b), `_get-scope
agent register
plan-status
list --status active --assignee 3c9e --markdown
fail a/01 --reason session interrupted
agent deregister 3c9e
`)
	assert.Assert(t, cmp.Contains(said.String(), "\nfailed a/01\n"))
	assert.Assert(t, strings.HasSuffix(said.String(), "\nderegistered 3c9e\n"), said.String())
	left, err := filepath.Glob(filepath.Join(p.dir, "ralph-*"))
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0, "temporary files stay behind: %v", left)
}
