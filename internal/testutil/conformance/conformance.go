//go:build unix

// Package conformance is the test suite that every driver passes.
package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
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

	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Suite tests one driver.
type Suite struct {
	Driver lifecycle.Driver
	// NewSpec returns a spec for a sandbox that no other test uses, with an
	// image that exists and its own worktree. The suite removes the
	// sandbox.
	NewSpec func(t *testing.T) lifecycle.Spec
	// Owner is the owner of files that are created inside; a negative UID means
	// that it does not matter.
	Owner lifecycle.User
	// NoResize skips changes of the terminal's size: a program behind another one is
	// signaled by its controlling terminal, which is not the suite's.
	NoResize bool
	// Parallel runs the tests in parallel. Sandboxes must not see each other's
	// processes.
	Parallel bool
}

// Run tests the contract of [lifecycle.Driver].
func (s Suite) Run(t *testing.T) {
	for _, check := range []struct {
		name string
		try  func(*testing.T)
	}{
		{"life", s.testLife},
		{"exec", s.testExec},
		{"terminal", s.testTerminal},
		{"detach", s.testDetach},
		{"signals", s.testSignals},
		{"relay", s.testRelay},
	} {
		t.Run(check.name, func(t *testing.T) {
			if s.Parallel {
				t.Parallel()
			}
			check.try(t)
		})
	}
}

func (s Suite) testLife(t *testing.T) {
	ctx, d, spec := t.Context(), s.Driver, s.NewSpec(t)
	sb, err := d.Lookup(ctx, spec.Name)
	assert.NilError(t, err)
	assert.Equal(t, sb, lifecycle.Sandbox{Name: spec.Name, State: lifecycle.NotFound}, "lookup before the creation")

	made, err := d.Create(ctx, spec)
	assert.NilError(t, err)
	s.cleanUp(t, made)
	s.expect(t, spec, made, made.State)
	_, err = d.Create(ctx, spec)
	assert.Assert(t, errors.Is(err, lifecycle.ErrExists), "a second sandbox of that name: %v", err)
	s.expect(t, spec, made, made.State)

	assert.NilError(t, d.Start(ctx, made))
	made = s.expect(t, spec, made, lifecycle.Running)
	assert.Assert(t, !d.Ready(made, spec), "a new one is not prepared")
	for range 2 { // Prepare can be repeated
		made = s.prepare(t, spec, made)
	}
	s.tryConfig(t, made, spec)
	assert.Assert(t, s.run(t, made, spec, "echo kept > ~/file; whoami") != "", "the user has a name")

	assert.NilError(t, d.Stop(ctx, made))
	s.expect(t, spec, made, lifecycle.Stopped)
	assert.NilError(t, d.Stop(ctx, made)) // again is fine
	assert.NilError(t, d.Start(ctx, made))
	made = s.expect(t, spec, made, lifecycle.Running)
	if !d.Ready(made, spec) {
		assert.Assert(t, made.Egress != "", "only isolation may have to be set up again after a stop")
		made = s.prepare(t, spec, made)
	}
	assert.Equal(t, s.run(t, made, spec, "cat ~/file"), "kept\n", "files after a stop")

	listed, err := d.List(ctx)
	assert.NilError(t, err)
	found := 0
	for _, l := range listed {
		if l.Name == spec.Name {
			found++
			l.ImageID, l.Resources, l.Rules, l.Run = made.ImageID, made.Resources, made.Rules, made.Run // only lookups set them
			assert.Equal(t, l, made, "listed sandbox")
		}
	}
	assert.Equal(t, found, 1, "number of listed sandboxes")

	for range 2 {
		assert.NilError(t, d.Remove(ctx, made))
	}
	sb, err = d.Lookup(ctx, spec.Name)
	assert.NilError(t, err)
	assert.Equal(t, sb.State, lifecycle.NotFound, "the state after it was removed")
	_, err = os.Stat(spec.Root)
	assert.NilError(t, err) // the worktree is kept
}

// expect looks up a sandbox, compares it with its spec and returns it.
func (s Suite) expect(t *testing.T, spec lifecycle.Spec, made lifecycle.Sandbox, state lifecycle.State) lifecycle.Sandbox {
	t.Helper()
	sb, err := s.Driver.Lookup(t.Context(), spec.Name)
	assert.NilError(t, err)
	assert.Equal(t, sb, lifecycle.Sandbox{
		Name: spec.Name, ID: made.ID, State: state, Client: made.Client, Scope: spec.Scope, Root: spec.Root, MainRoot: made.MainRoot, Agent: spec.Agent,
		Image: spec.Image, Settings: spec.Settings(), Resources: spec.Resources, User: made.User, Ephemeral: spec.Ephemeral,
		Config: spec.Config, ConfigAt: made.ConfigAt, Egress: spec.Egress.Policy.Mode,
		Private: made.Private, SignDir: made.SignDir, Unused: sb.Unused,
		ImageID: sb.ImageID,
		// They change with each start.
		Proxy: sb.Proxy, Rules: sb.Rules, Run: sb.Run,
	}, "what is looked up")
	return sb
}

// prepare prepares a sandbox until a lookup finds it ready: other tests create networks
// meanwhile, and the isolation has to be set up again.
func (s Suite) prepare(t *testing.T, spec lifecycle.Spec, made lifecycle.Sandbox) lifecycle.Sandbox {
	t.Helper()
	becomes(t, "it is prepared", func() (string, bool) {
		assert.NilError(t, s.Driver.Prepare(t.Context(), made, spec))
		made = s.expect(t, spec, made, lifecycle.Running)
		return fmt.Sprintf("not prepared: %+v", made), s.Driver.Ready(made, spec)
	})
	return made
}

// tryConfig checks that the sandbox sees settings that are added after its creation.
func (s Suite) tryConfig(t *testing.T, sb lifecycle.Sandbox, spec lifecycle.Spec) {
	t.Helper()
	if spec.Config == "" {
		assert.Equal(t, sb.ConfigAt, "", "where configuration is seen")
		return
	}
	assert.NilError(t, os.WriteFile(filepath.Join(spec.Config, "laid-out"), []byte("seen\n"), 0o644))
	_, out, _ := s.exec(t, sb, lifecycle.Process{Args: []string{"cat", sb.ConfigAt + "/laid-out"}, Dir: spec.Root})
	assert.Equal(t, out, "seen\n", "what is seen of a file with configuration")
	assert.NilError(t, os.Remove(filepath.Join(spec.Config, "laid-out")))
}

func (s Suite) testExec(t *testing.T) {
	sb, spec := s.Up(t)
	for _, code := range []int{0, 1, 2, 125, 126, 127, 130, 137, 255} {
		got, _, _ := s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", fmt.Sprint("exit ", code)}, Dir: spec.Root})
		assert.Equal(t, got, code, "the exit code")
	}

	_, out, errOut := s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", "echo out; echo err >&2; pwd"}, Dir: spec.Root})
	assert.Equal(t, out, "out\n"+spec.Root+"\n", "the output")
	assert.Equal(t, errOut, "err\n", "the errors")

	args := []string{"", " a  b ", "it's \"q\"", "two\nlines", "--", "-x", "$HOME `id` \\", "日本🐳", "*"}
	_, out, _ = s.exec(t, sb, lifecycle.Process{Args: append([]string{"printf", "<%s>"}, args...), Dir: spec.Root})
	assert.Equal(t, out, "<"+strings.Join(args, "><")+">", "the arguments")

	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // 1 MiB
	_, out, _ = s.exec(t, sb, lifecycle.Process{Args: []string{"cat"}, Dir: spec.Root, Stdin: bytes.NewReader(big)})
	assert.Assert(t, out == string(big), "%d bytes of %d come back as they were", len(out), len(big))

	_, out, _ = s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", `printf "%s" "$SECRET"`}, Dir: spec.Root, Env: []string{"SECRET=a b\n'c'"}})
	assert.Equal(t, out, "a b\n'c'", "the variable")

	s.run(t, sb, spec, "echo made inside > made")
	info, err := os.Stat(filepath.Join(spec.Root, "made"))
	assert.NilError(t, err)
	if s.Owner.UID >= 0 {
		assert.Equal(t, ownerOf(t, info), s.Owner, "the owner of a new file")
	}
	assert.Equal(t, info.Mode().Perm()&0o022, os.FileMode(0), "who else may write a new file")
}

func (s Suite) testTerminal(t *testing.T) {
	sb, spec := s.Up(t)
	var out output.Buffer
	term := newTerminal(t, 24, 80, &out)
	before := term.state(t)
	ended := s.begin(t, sb, lifecycle.Process{
		Args:     []string{"sh", "-c", `test -t 0 && test -t 1 && echo terminal; trap 'echo interrupted; exit 9' INT; trap 'echo size $(stty size)' WINCH; until [ "$x" = q ]; do echo size $(stty size); read x; done; trap '' WINCH; echo ready; while :; do read x; done`},
		Dir:      spec.Root,
		Terminal: term,
		Stdout:   struct{ io.Writer }{term.end}, // a way to the terminal that is not the terminal
	})
	out.WaitFor(t, "terminal")
	press(t, term, "\n", &out, "size 24 80")
	if !s.NoResize {
		assert.NilError(t, term.resize(50, 132))
		press(t, term, "\n", &out, "size 50 132")
	}
	press(t, term, "q\n", &out, "ready") // dash loses an interrupt while it runs stty
	press(t, term, "\x03", &out, "interrupted")
	end := <-ended
	assert.NilError(t, end.err)
	assert.Equal(t, end.code, 9, "the exit code")
	assert.Equal(t, term.state(t), before, "the terminal afterwards")
}

func (s Suite) testDetach(t *testing.T) {
	sb, spec := s.Up(t)
	var out output.Buffer
	term := newTerminal(t, 24, 80, &out)
	before := term.state(t)
	ended := s.begin(t, sb, lifecycle.Process{
		ID: "detached", Args: []string{"sh", "-c", "echo begun; while ! test -e go; do sleep 0.05; done; echo x > after"},
		Dir: spec.Root, Terminal: term,
	})
	out.WaitFor(t, "begun")
	for _, key := range []string{"\x10", "\x11"} {
		_, err := io.WriteString(term.user, key)
		assert.NilError(t, err)
	}
	end := <-ended
	assert.Assert(t, errors.Is(end.err, lifecycle.ErrDetached), "the user has detached (%v)", end.err)
	assert.Equal(t, term.state(t), before, "the terminal afterwards")
	s.busy(t, sb, true)
	var running []lifecycle.Dispatch
	becomes(t, "it runs alone", func() (string, bool) { // a question that was just answered may not have ended
		var err error
		running, err = s.Driver.Dispatches(t.Context(), sb)
		assert.NilError(t, err)
		return fmt.Sprint(running), len(running) == 1 && running[0].ID == "detached"
	})
	age := time.Since(running[0].Since)
	assert.Assert(t, age > -5*time.Second && age < 5*time.Minute, "it has run for a while (%s)", age)
	assert.NilError(t, os.WriteFile(filepath.Join(spec.Root, "go"), nil, 0o644))
	becomes(t, "it goes on to its end", func() (string, bool) {
		_, err := os.Stat(filepath.Join(spec.Root, "after"))
		return fmt.Sprint(err), err == nil
	})
	s.busy(t, sb, false)
}

func (s Suite) testSignals(t *testing.T) {
	sb, spec := s.Up(t)
	for _, tc := range []struct {
		signal os.Signal
		want   int
	}{{os.Interrupt, 42}, {syscall.SIGTERM, 43}} {
		var out output.Buffer
		id := rand.Text()
		ended := s.begin(t, sb, lifecycle.Process{
			ID: id, Args: []string{"sh", "-c", "trap 'exit 42' INT; trap 'exit 43' TERM; echo ready; while :; do sleep 0.05; done"},
			Dir: spec.Root, Stdout: &out, Stderr: &out,
		})
		out.WaitFor(t, "ready")
		s.busy(t, sb, true)
		assert.NilError(t, lifecycle.Signal(t.Context(), s.Driver, sb, tc.signal, id))
		end := <-ended
		assert.NilError(t, end.err)
		assert.Equal(t, end.code, tc.want, "the exit code")
		s.busy(t, sb, false)
		assert.ErrorIs(t, lifecycle.Signal(t.Context(), s.Driver, sb, tc.signal, id), lifecycle.ErrNoProcess)
	}
	sb, err := s.Driver.Lookup(t.Context(), spec.Name)
	assert.NilError(t, err)
	assert.Equal(t, sb.State, lifecycle.Running, "the state afterwards")
}

func (s Suite) busy(t *testing.T, sb lifecycle.Sandbox, want bool) {
	t.Helper()
	becomes(t, fmt.Sprintf("busy is %v", want), func() (string, bool) {
		got, err := s.Driver.Busy(t.Context(), sb)
		assert.NilError(t, err)
		return fmt.Sprint(got), got == want
	})
}

// Up creates a running and prepared sandbox.
func (s Suite) Up(t *testing.T) (lifecycle.Sandbox, lifecycle.Spec) {
	t.Helper()
	spec := s.NewSpec(t)
	return s.UpWith(t, spec), spec
}

// UpWith creates the sandbox of a spec, running and prepared.
func (s Suite) UpWith(t *testing.T, spec lifecycle.Spec) lifecycle.Sandbox {
	t.Helper()
	sb, err := s.Driver.Create(t.Context(), spec)
	assert.NilError(t, err)
	s.cleanUp(t, sb)
	if sb.State != lifecycle.Running {
		assert.NilError(t, s.Driver.Start(t.Context(), sb))
	}
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
	assert.Equal(t, code, 0, "the exit code of %q, which said %q", script, out+errOut)
	return out
}

// exec runs a process without a terminal.
func (s Suite) exec(t *testing.T, sb lifecycle.Sandbox, p lifecycle.Process) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p.ID, p.Stdout, p.Stderr = rand.Text(), &stdout, &stderr
	code, err := s.Driver.Exec(t.Context(), sb, p)
	assert.NilError(t, err)
	return code, stdout.String(), stderr.String()
}

// end is the outcome of a process.
type end struct {
	code int
	err  error
}

// begin starts a process and sends its outcome.
func (s Suite) begin(t *testing.T, sb lifecycle.Sandbox, p lifecycle.Process) <-chan end {
	if p.ID == "" {
		p.ID = rand.Text()
	}
	if p.Terminal != nil {
		stdin, stdout, stderr := p.Terminal.Files()
		p.Stdin, p.Stderr = stdin, stderr
		if p.Stdout == nil {
			p.Stdout = stdout
		}
	}
	ended := make(chan end, 1)
	go func() {
		code, err := s.Driver.Exec(t.Context(), sb, p)
		ended <- end{code, err}
	}()
	return ended
}

// press types keys repeatedly until the output shows their effect: a process may be between
// two reads, and a change of size takes effect later.
func press(t *testing.T, term *terminal, keys string, out *output.Buffer, effect string) {
	t.Helper()
	becomes(t, fmt.Sprintf("%q is there after %q was typed", effect, keys), func() (string, bool) {
		seen := out.String()
		if strings.Contains(seen, effect) {
			return seen, true
		}
		_, err := io.WriteString(term.user, keys)
		assert.NilError(t, err)
		return seen, false
	})
}

// becomes polls until look reports yes.
func becomes(t *testing.T, what string, look func() (sees string, yes bool)) {
	t.Helper()
	const timeout = 30 * time.Second
	for begun := time.Now(); ; {
		sees, yes := look()
		if yes {
			return
		}
		assert.Assert(t, time.Since(begun) < timeout, "%s: not so after %s, but: %s", what, timeout, sees)
		time.Sleep(50 * time.Millisecond)
	}
}

// ownerOf returns the owner of a file.
func ownerOf(t *testing.T, info os.FileInfo) lifecycle.User {
	t.Helper()
	st, ok := info.Sys().(*syscall.Stat_t)
	assert.Assert(t, ok)
	return lifecycle.User{UID: int(st.Uid), GID: int(st.Gid)}
}
