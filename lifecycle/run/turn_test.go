package run

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// messages gets what a session says.
type messages chan string

func (m messages) Write(p []byte) (int, error) {
	m <- string(p)
	return len(p), nil
}

// building returns a session of a command in a sandbox, and what it says.
func building(dir, command string, spec lifecycle.Spec) (s session, r Ready, said messages) {
	said = make(messages, 10)
	r.spec, r.opts.Command = spec, command
	return session{Host: host.Host{StateDir: dir, Stderr: said}}, r, said
}

func TestBuildsTakeTurns(t *testing.T) {
	dir, spec := t.TempDir(), lifecycle.Spec{Name: "ralph-a"}
	first, r, _ := building(dir, host.BuildCommand, spec)
	leave, err := first.takeTurn(t.Context(), r)
	assert.NilError(t, err)

	for _, beside := range []struct {
		command string
		spec    lifecycle.Spec
	}{
		{"plan", spec},
		{host.ShellCommand, spec},
		{host.BuildCommand, lifecycle.Spec{Name: "ralph-b"}},
		{host.BuildCommand, lifecycle.Spec{Name: "ralph-a", Ephemeral: true}},
	} {
		s, other, _ := building(dir, beside.command, beside.spec)
		leaveOther, err := s.takeTurn(t.Context(), other)
		assert.NilError(t, err)
		leaveOther()
	}

	second, r, said := building(dir, host.BuildCommand, spec)
	taken := make(chan func(), 1)
	go func() {
		leaveSecond, err := second.takeTurn(t.Context(), r)
		assert.Check(t, err)
		taken <- leaveSecond
	}()
	assert.Assert(t, is.Contains(<-said, "Waiting for another loop in sandbox ralph-a\n"))
	assert.Equal(t, len(taken), 0)

	ctx, cancel := context.WithCancel(t.Context())
	third, r, said := building(dir, host.BuildCommand, spec)
	failed := make(chan error, 1)
	go func() {
		_, err := third.takeTurn(ctx, r)
		failed <- err
	}()
	<-said
	cancel()
	assert.ErrorIs(t, <-failed, context.Canceled)

	leave()
	(<-taken)()
}
