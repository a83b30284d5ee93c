// Package drivertest is the conformance suite that every driver passes.
package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Suite is one driver, ready to be tried.
type Suite struct {
	Driver lifecycle.Driver
	// NewSpec returns a spec for a sandbox that nobody else uses, with an
	// image that exists and a work tree of its own. The suite removes the
	// sandbox.
	NewSpec func(t *testing.T) lifecycle.Spec
}

// Run tries everything that the contract of [lifecycle.Driver] promises.
func (s Suite) Run(t *testing.T) {
	t.Run("life", s.testLife)
	t.Run("exec", s.testExec)
	t.Run("terminal", s.testTerminal)
	t.Run("detach", s.testDetach)
	t.Run("signals", s.testSignals)
}

func (s Suite) testLife(t *testing.T) {
	ctx, d, spec := t.Context(), s.Driver, s.NewSpec(t)
	sb, err := d.Lookup(ctx, spec.Name)
	assert.NilError(t, err)
	assert.DeepEqual(t, sb, lifecycle.Sandbox{Name: spec.Name, State: lifecycle.NotFound})

	made, err := d.Create(ctx, spec)
	assert.NilError(t, err)
	s.cleanUp(t, made)
	s.expect(t, spec, made, lifecycle.Stopped)
	_, err = d.Create(ctx, spec)
	assert.Assert(t, errors.Is(err, lifecycle.ErrExists), "%v", err)

	assert.NilError(t, d.Start(ctx, made))
	s.expect(t, spec, made, lifecycle.Running)
	assert.Assert(t, !d.Ready(made))
	for range 2 { // Prepare can be repeated
		assert.NilError(t, d.Prepare(ctx, made, spec))
		assert.Assert(t, d.Ready(made))
	}
	out := s.run(t, made, spec, "echo kept > ~/file; whoami")
	assert.Assert(t, out != "", "the user has a name")

	assert.NilError(t, d.Stop(ctx, made))
	s.expect(t, spec, made, lifecycle.Stopped)
	assert.NilError(t, d.Stop(ctx, made), "again is fine")
	assert.NilError(t, d.Start(ctx, made))
	assert.Assert(t, d.Ready(made), "a stop does not undo the preparation")
	assert.Equal(t, s.run(t, made, spec, "cat ~/file"), "kept\n")

	listed, err := d.List(ctx)
	assert.NilError(t, err)
	found := 0
	for _, l := range listed {
		if l.Name == spec.Name {
			found++
			l.State, made.State = "", ""
			assert.DeepEqual(t, l, made)
		}
	}
	assert.Equal(t, found, 1)

	for range 2 {
		assert.NilError(t, d.Remove(ctx, made))
	}
	sb, err = d.Lookup(ctx, spec.Name)
	assert.NilError(t, err)
	assert.Equal(t, sb.State, lifecycle.NotFound)
	_, err = os.Stat(spec.Root)
	assert.NilError(t, err, "the work tree stays")
}

// expect compares what a lookup finds with what the sandbox was made for.
func (s Suite) expect(t *testing.T, spec lifecycle.Spec, made lifecycle.Sandbox, state lifecycle.State) {
	t.Helper()
	sb, err := s.Driver.Lookup(t.Context(), spec.Name)
	assert.NilError(t, err)
	assert.DeepEqual(t, sb, lifecycle.Sandbox{
		Name: spec.Name, ID: made.ID, State: state, Scope: spec.Scope, Root: spec.Root, Agent: spec.Agent,
		Image: spec.Image, ConfigHash: spec.Hash(), User: made.User, Ephemeral: spec.Ephemeral,
	})
}

func (s Suite) testExec(t *testing.T) {
	sb, spec := s.Up(t)
	for _, code := range []int{0, 1, 2, 125, 126, 127, 130, 137, 255} {
		got, _, _ := s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", fmt.Sprint("exit ", code)}, Dir: spec.Root})
		assert.Equal(t, got, code)
	}

	_, out, errOut := s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", "echo out; echo err >&2; pwd"}, Dir: spec.Root})
	assert.Equal(t, out, "out\n"+spec.Root+"\n")
	assert.Equal(t, errOut, "err\n")

	args := []string{"", " a  b ", "it's \"q\"", "two\nlines", "--", "-x", "$HOME `id` \\", "日本🐳", "*"}
	_, out, _ = s.exec(t, sb, lifecycle.Process{Args: append([]string{"printf", "<%s>"}, args...), Dir: spec.Root})
	assert.Equal(t, out, "<"+strings.Join(args, "><")+">")

	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // 1 MiB
	_, out, _ = s.exec(t, sb, lifecycle.Process{Args: []string{"cat"}, Dir: spec.Root, Stdin: bytes.NewReader(big)})
	assert.Assert(t, out == string(big), "%d bytes of %d came back", len(out), len(big))

	_, out, _ = s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", `printf "%s" "$SECRET"`}, Dir: spec.Root, Env: []string{"SECRET=a b\n'c'"}})
	assert.Equal(t, out, "a b\n'c'")

	s.run(t, sb, spec, "echo made inside > made")
	info, err := os.Stat(filepath.Join(spec.Root, "made"))
	assert.NilError(t, err)
	st, ok := info.Sys().(*syscall.Stat_t)
	assert.Assert(t, ok)
	assert.Check(t, is.Equal(int(st.Uid), spec.User.UID))
	assert.Check(t, is.Equal(int(st.Gid), spec.User.GID))
}

func (s Suite) testTerminal(t *testing.T) {
	sb, spec := s.Up(t)
	term := newTerminal(24, 80)
	in, keys := io.Pipe()
	var out buffer
	done := make(chan int, 1)
	go func() {
		code, err := s.Driver.Exec(t.Context(), sb, lifecycle.Process{
			Args: []string{"sh", "-c", `test -t 0 && test -t 1 && echo terminal; trap 'echo interrupted; exit 9' INT; trap 'echo size $(stty size)' WINCH; while :; do echo size $(stty size); read x; done`},
			Dir:  spec.Root, Stdin: in, Stdout: &out, Stderr: &out, Terminal: term,
		})
		assert.Check(t, err)
		done <- code
	}()
	out.waitFor(t, "terminal")
	press(t, keys, "\n", &out, "size 24 80")
	term.resize(50, 132)
	press(t, keys, "\n", &out, "size 50 132")
	press(t, keys, "\x03", &out, "interrupted")
	assert.Equal(t, <-done, 9)
	assert.Assert(t, term.restored.Load())
}

func (s Suite) testDetach(t *testing.T) {
	sb, spec := s.Up(t)
	term := newTerminal(24, 80)
	in, keys := io.Pipe()
	var out buffer
	done := make(chan error, 1)
	go func() {
		_, err := s.Driver.Exec(t.Context(), sb, lifecycle.Process{
			Args: []string{"sh", "-c", "echo begun; while ! test -e go; do sleep 0.05; done; echo x > after"},
			Dir:  spec.Root, Stdin: in, Stdout: &out, Stderr: &out, Terminal: term,
		})
		done <- err
	}()
	out.waitFor(t, "begun")
	for _, key := range []string{"\x10", "\x11"} {
		_, err := io.WriteString(keys, key)
		assert.NilError(t, err)
	}
	assert.Assert(t, errors.Is(<-done, lifecycle.ErrDetached))
	assert.Assert(t, term.restored.Load())
	s.busy(t, sb, true)
	assert.NilError(t, os.WriteFile(filepath.Join(spec.Root, "go"), nil, 0o644))
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if _, err := os.Stat(filepath.Join(spec.Root, "after")); err != nil {
			return poll.Continue("%v", err)
		}
		return poll.Success()
	}, poll.WithTimeout(30*time.Second))
	s.busy(t, sb, false)
}

func (s Suite) testSignals(t *testing.T) {
	sb, spec := s.Up(t)
	for _, tc := range []struct {
		signal os.Signal
		want   int
	}{{os.Interrupt, 42}, {syscall.SIGTERM, 43}} {
		signals := make(chan os.Signal, 1)
		var out buffer
		done := make(chan int, 1)
		go func() {
			code, err := s.Driver.Exec(t.Context(), sb, lifecycle.Process{
				Args: []string{"sh", "-c", "trap 'exit 42' INT; trap 'exit 43' TERM; echo ready; while :; do sleep 0.05; done"},
				Dir:  spec.Root, Stdout: &out, Stderr: &out, Signals: signals,
			})
			assert.Check(t, err)
			done <- code
		}()
		out.waitFor(t, "ready")
		s.busy(t, sb, true)
		signals <- tc.signal
		assert.Equal(t, <-done, tc.want)
		s.busy(t, sb, false)
	}
	state, err := s.Driver.Lookup(t.Context(), spec.Name)
	assert.NilError(t, err)
	assert.Equal(t, state.State, lifecycle.Running, "the sandbox lives on")
}

func (s Suite) busy(t *testing.T, sb lifecycle.Sandbox, want bool) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		got, err := s.Driver.Busy(t.Context(), sb)
		if err != nil {
			return poll.Error(err)
		}
		if got != want {
			return poll.Continue("busy is %v", got)
		}
		return poll.Success()
	}, poll.WithTimeout(30*time.Second))
}

// Up makes a sandbox that is running and prepared.
func (s Suite) Up(t *testing.T) (lifecycle.Sandbox, lifecycle.Spec) {
	t.Helper()
	spec := s.NewSpec(t)
	return s.UpWith(t, spec), spec
}

// UpWith makes the sandbox of a spec, running and prepared.
func (s Suite) UpWith(t *testing.T, spec lifecycle.Spec) lifecycle.Sandbox {
	t.Helper()
	sb, err := s.Driver.Create(t.Context(), spec)
	assert.NilError(t, err)
	s.cleanUp(t, sb)
	assert.NilError(t, s.Driver.Start(t.Context(), sb))
	assert.NilError(t, s.Driver.Prepare(t.Context(), sb, spec))
	return sb
}

func (s Suite) cleanUp(t *testing.T, sb lifecycle.Sandbox) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		assert.Check(t, s.Driver.Remove(ctx, sb))
	})
}

// run runs a shell command that must succeed and returns its output.
func (s Suite) run(t *testing.T, sb lifecycle.Sandbox, spec lifecycle.Spec, script string) string {
	t.Helper()
	code, out, errOut := s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", script}, Dir: spec.Root})
	assert.Equal(t, code, 0, "%s%s", out, errOut)
	return out
}

// exec runs a process without a terminal.
func (s Suite) exec(t *testing.T, sb lifecycle.Sandbox, p lifecycle.Process) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p.Stdout, p.Stderr = &stdout, &stderr
	code, err := s.Driver.Exec(t.Context(), sb, p)
	assert.NilError(t, err)
	return code, stdout.String(), stderr.String()
}
