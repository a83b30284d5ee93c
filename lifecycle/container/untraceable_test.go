package container_test

import (
	"crypto/rand"
	"io"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// The environment of ralph has secrets that the agent, which runs as the same user, must not read. Its commands are
// found and signaled nevertheless.
func TestAgentCannotTraceRalph(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		sb, spec := s.Up(t)
		id, ended := rand.Text(), make(chan error, 1)
		command := []string{"ralph", "shell", "--", "sleep", "1m"}
		go func() {
			_, err := s.Driver.Exec(t.Context(), sb, lifecycle.Process{
				ID: id, Args: command, Dir: spec.Root, Env: []string{"SECRET=x"}, Stdout: io.Discard, Stderr: io.Discard,
			})
			ended <- err
		}()
		out := sh(t, s.Driver, sb, spec, `exec 2>&1; until p=$(grep -l '^she[l]l$' -z /proc/[0-9]*/cmdline); do sleep 0.05; done; p=${p%/cmdline}
			cat $p/environ; true <$p/mem; ls $p/fd; kill -0 ${p#/proc/} && echo signaled`)
		assert.Check(t, is.Contains(out, "environ: Permission denied"))
		assert.Check(t, is.Contains(out, "mem: Permission denied"))
		assert.Check(t, is.Contains(out, "fd': Permission denied"))
		assert.Check(t, is.Contains(out, "signaled\n"))

		running, err := s.Driver.Dispatches(t.Context(), sb)
		assert.NilError(t, err)
		assert.Equal(t, len(running), 1)
		assert.Equal(t, running[0].ID, id)
		assert.DeepEqual(t, running[0].Command[1:], command[1:])

		assert.NilError(t, lifecycle.Signal(t.Context(), s.Driver, sb, syscall.SIGTERM, id))
		assert.NilError(t, <-ended)
	})
}
