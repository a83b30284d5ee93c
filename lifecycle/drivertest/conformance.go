// Package drivertest is the conformance suite that every driver passes. It is
// run by tests, and by users against the programs that they have.
package drivertest

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
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Suite is one driver, ready to be tried.
type Suite struct {
	Driver lifecycle.Driver
	// NewSpec returns a spec for a sandbox that nobody else uses, with an
	// image that exists and a work tree of its own. The suite removes the
	// sandbox.
	NewSpec func(t T) lifecycle.Spec
	// Owner is who files that are made inside belong to; a negative UID means
	// that it does not matter.
	Owner lifecycle.User
	// NoResize leaves out changes of the terminal's size: a program behind
	// another hears of them from the terminal that controls it, which the
	// suite's does not.
	NoResize bool
	// Parallel tries everything at the same time, if T has a method Parallel as
	// tests of the go command do. Sandboxes must not see each other's processes.
	Parallel bool
}

// Run tries everything that the contract of [lifecycle.Driver] promises.
func (s Suite) Run(t T) {
	for _, check := range []struct {
		name string
		try  func(T)
	}{
		{"life", s.testLife},
		{"exec", s.testExec},
		{"terminal", s.testTerminal},
		{"detach", s.testDetach},
		{"signals", s.testSignals},
	} {
		t.Run(check.name, func(t T) {
			if p, can := t.(interface{ Parallel() }); can && s.Parallel {
				p.Parallel()
			}
			check.try(t)
		})
	}
}

func (s Suite) testLife(t T) {
	ctx, d, spec := t.Context(), s.Driver, s.NewSpec(t)
	sb, err := d.Lookup(ctx, spec.Name)
	noError(t, err)
	equal(t, "what is looked up before it is made", sb, lifecycle.Sandbox{Name: spec.Name, State: lifecycle.NotFound})

	made, err := d.Create(ctx, spec)
	noError(t, err)
	s.cleanUp(t, made)
	s.expect(t, spec, made, made.State)
	_, err = d.Create(ctx, spec)
	holds(t, fmt.Sprintf("a second one of that name is refused as one that exists (%v)", err), errors.Is(err, lifecycle.ErrExists))
	s.expect(t, spec, made, made.State)

	noError(t, d.Start(ctx, made))
	made = s.expect(t, spec, made, lifecycle.Running)
	holds(t, "a new one is not prepared", !d.Ready(made, spec))
	for range 2 { // Prepare can be repeated
		made = s.prepare(t, spec, made)
	}
	s.tryConfig(t, made, spec)
	holds(t, "the user has a name", s.run(t, made, spec, "echo kept > ~/file; whoami") != "")

	noError(t, d.Stop(ctx, made))
	s.expect(t, spec, made, lifecycle.Stopped)
	noError(t, d.Stop(ctx, made)) // again is fine
	noError(t, d.Start(ctx, made))
	made = s.expect(t, spec, made, lifecycle.Running)
	if !d.Ready(made, spec) {
		holds(t, "a stop undoes the preparation only where a wall has to be raised again", made.Egress != "")
		made = s.prepare(t, spec, made)
	}
	equal(t, "what a stop keeps", s.run(t, made, spec, "cat ~/file"), "kept\n")

	listed, err := d.List(ctx)
	noError(t, err)
	found := 0
	for _, l := range listed {
		if l.Name == spec.Name {
			found++
			l.Run = made.Run // which takes a closer look
			equal(t, "what is listed", l, made)
		}
	}
	equal(t, "how often it is listed", found, 1)

	for range 2 {
		noError(t, d.Remove(ctx, made))
	}
	sb, err = d.Lookup(ctx, spec.Name)
	noError(t, err)
	equal(t, "the state after it was removed", sb.State, lifecycle.NotFound)
	_, err = os.Stat(spec.Root)
	noError(t, err) // the work tree stays
}

// expect compares what a lookup finds with what the sandbox was made for, and
// returns it.
func (s Suite) expect(t T, spec lifecycle.Spec, made lifecycle.Sandbox, state lifecycle.State) lifecycle.Sandbox {
	t.Helper()
	sb, err := s.Driver.Lookup(t.Context(), spec.Name)
	noError(t, err)
	equal(t, "what is looked up", sb, lifecycle.Sandbox{
		Name: spec.Name, ID: made.ID, State: state, Scope: spec.Scope, Root: spec.Root, MainRoot: made.MainRoot, Agent: spec.Agent,
		Image: spec.Image, ConfigHash: spec.Hash(), User: made.User, Ephemeral: spec.Ephemeral,
		Config: spec.Config, ConfigAt: made.ConfigAt, Egress: spec.Egress.Policy.Mode,
		Private: made.Private, SignDir: made.SignDir,
		// What holds its network is the driver's affair, and new with each start.
		Proxy: sb.Proxy, Netns: sb.Netns, Run: sb.Run,
	})
	return sb
}

// prepare prepares a sandbox until it is looked up as ready: where others make
// networks meanwhile, a wall is not what it should be a moment later.
func (s Suite) prepare(t T, spec lifecycle.Spec, made lifecycle.Sandbox) lifecycle.Sandbox {
	t.Helper()
	becomes(t, "it is prepared", func() (string, bool) {
		noError(t, s.Driver.Prepare(t.Context(), made, spec))
		made = s.expect(t, spec, made, lifecycle.Running)
		return fmt.Sprintf("not prepared: %+v", made), s.Driver.Ready(made, spec)
	})
	return made
}

// tryConfig looks whether the sandbox sees what is put into the folder for
// configuration after it was made.
func (s Suite) tryConfig(t T, sb lifecycle.Sandbox, spec lifecycle.Spec) {
	t.Helper()
	if spec.Config == "" {
		equal(t, "where configuration is seen", sb.ConfigAt, "")
		return
	}
	noError(t, os.WriteFile(filepath.Join(spec.Config, "laid-out"), []byte("seen\n"), 0o644))
	_, out, _ := s.exec(t, sb, lifecycle.Process{Args: []string{"cat", sb.ConfigAt + "/laid-out"}, Dir: spec.Root})
	equal(t, "what is seen of a file with configuration", out, "seen\n")
	noError(t, os.Remove(filepath.Join(spec.Config, "laid-out")))
}

func (s Suite) testExec(t T) {
	sb, spec := s.Up(t)
	for _, code := range []int{0, 1, 2, 125, 126, 127, 130, 137, 255} {
		got, _, _ := s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", fmt.Sprint("exit ", code)}, Dir: spec.Root})
		equal(t, "the exit code", got, code)
	}

	_, out, errOut := s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", "echo out; echo err >&2; pwd"}, Dir: spec.Root})
	equal(t, "the output", out, "out\n"+spec.Root+"\n")
	equal(t, "the errors", errOut, "err\n")

	args := []string{"", " a  b ", "it's \"q\"", "two\nlines", "--", "-x", "$HOME `id` \\", "日本🐳", "*"}
	_, out, _ = s.exec(t, sb, lifecycle.Process{Args: append([]string{"printf", "<%s>"}, args...), Dir: spec.Root})
	equal(t, "the arguments", out, "<"+strings.Join(args, "><")+">")

	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // 1 MiB
	_, out, _ = s.exec(t, sb, lifecycle.Process{Args: []string{"cat"}, Dir: spec.Root, Stdin: bytes.NewReader(big)})
	holds(t, fmt.Sprintf("%d bytes of %d come back as they were", len(out), len(big)), out == string(big))

	_, out, _ = s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", `printf "%s" "$SECRET"`}, Dir: spec.Root, Env: []string{"SECRET=a b\n'c'"}})
	equal(t, "the variable", out, "a b\n'c'")

	s.run(t, sb, spec, "echo made inside > made")
	info, err := os.Stat(filepath.Join(spec.Root, "made"))
	noError(t, err)
	if owner, ok := ownerOf(info); ok && s.Owner.UID >= 0 {
		equal(t, "the owner of a new file", owner, s.Owner)
	}
	if _, ok := ownerOf(info); ok {
		equal(t, "who else may write a new file", info.Mode().Perm()&0o022, os.FileMode(0))
	}
}

func (s Suite) testTerminal(t T) {
	sb, spec := s.Up(t)
	var out buffer
	term := newTerminal(t, 24, 80, &out)
	before := term.state(t)
	ended := s.begin(t, sb, lifecycle.Process{
		Args:     []string{"sh", "-c", `test -t 0 && test -t 1 && echo terminal; trap 'echo interrupted; exit 9' INT; trap 'echo size $(stty size)' WINCH; while :; do echo size $(stty size); read x; done`},
		Dir:      spec.Root,
		Terminal: term,
		Stdout:   struct{ io.Writer }{term.end}, // a way to the terminal that is not the terminal
	})
	out.waitFor(t, "terminal")
	press(t, term, "\n", &out, "size 24 80")
	if !s.NoResize {
		noError(t, term.resize(50, 132))
		press(t, term, "\n", &out, "size 50 132")
	}
	press(t, term, "\x03", &out, "interrupted")
	end := <-ended
	noError(t, end.err)
	equal(t, "the exit code", end.code, 9)
	equal(t, "the terminal afterwards", term.state(t), before)
}

func (s Suite) testDetach(t T) {
	sb, spec := s.Up(t)
	var out buffer
	term := newTerminal(t, 24, 80, &out)
	before := term.state(t)
	ended := s.begin(t, sb, lifecycle.Process{
		ID: "detached", Args: []string{"sh", "-c", "echo begun; while ! test -e go; do sleep 0.05; done; echo x > after"},
		Dir: spec.Root, Terminal: term,
	})
	out.waitFor(t, "begun")
	for _, key := range []string{"\x10", "\x11"} {
		_, err := io.WriteString(term.user, key)
		noError(t, err)
	}
	end := <-ended
	holds(t, fmt.Sprintf("the user has detached (%v)", end.err), errors.Is(end.err, lifecycle.ErrDetached))
	equal(t, "the terminal afterwards", term.state(t), before)
	s.busy(t, sb, true)
	running, err := s.Driver.Dispatches(t.Context(), sb)
	noError(t, err)
	equal(t, "how many dispatches run", len(running), 1)
	equal(t, "which one runs", running[0].ID, "detached")
	age := time.Since(running[0].Since)
	holds(t, fmt.Sprintf("it has run for a while (%s)", age), age > -5*time.Second && age < 5*time.Minute)
	noError(t, os.WriteFile(filepath.Join(spec.Root, "go"), nil, 0o644))
	becomes(t, "it goes on to its end", func() (string, bool) {
		_, err := os.Stat(filepath.Join(spec.Root, "after"))
		return fmt.Sprint(err), err == nil
	})
	s.busy(t, sb, false)
}

func (s Suite) testSignals(t T) {
	sb, spec := s.Up(t)
	for _, tc := range []struct {
		signal os.Signal
		want   int
	}{{os.Interrupt, 42}, {syscall.SIGTERM, 43}} {
		signals := make(chan os.Signal, 1)
		var out buffer
		ended := s.begin(t, sb, lifecycle.Process{
			Args: []string{"sh", "-c", "trap 'exit 42' INT; trap 'exit 43' TERM; echo ready; while :; do sleep 0.05; done"},
			Dir:  spec.Root, Stdout: &out, Stderr: &out, Signals: signals,
		})
		out.waitFor(t, "ready")
		s.busy(t, sb, true)
		signals <- tc.signal
		end := <-ended
		noError(t, end.err)
		equal(t, "the exit code", end.code, tc.want)
		s.busy(t, sb, false)
	}
	sb, err := s.Driver.Lookup(t.Context(), spec.Name)
	noError(t, err)
	equal(t, "the state afterwards", sb.State, lifecycle.Running)
}

func (s Suite) busy(t T, sb lifecycle.Sandbox, want bool) {
	t.Helper()
	becomes(t, fmt.Sprintf("busy is %v", want), func() (string, bool) {
		got, err := s.Driver.Busy(t.Context(), sb)
		noError(t, err)
		return fmt.Sprint(got), got == want
	})
}

// Up makes a sandbox that is running and prepared.
func (s Suite) Up(t T) (lifecycle.Sandbox, lifecycle.Spec) {
	t.Helper()
	spec := s.NewSpec(t)
	return s.UpWith(t, spec), spec
}

// UpWith makes the sandbox of a spec, running and prepared.
func (s Suite) UpWith(t T, spec lifecycle.Spec) lifecycle.Sandbox {
	t.Helper()
	sb, err := s.Driver.Create(t.Context(), spec)
	noError(t, err)
	s.cleanUp(t, sb)
	if sb.State != lifecycle.Running {
		noError(t, s.Driver.Start(t.Context(), sb))
	}
	noError(t, s.Driver.Prepare(t.Context(), sb, spec))
	return sb
}

func (s Suite) cleanUp(t T, sb lifecycle.Sandbox) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := s.Driver.Remove(ctx, sb); err != nil {
			t.Fatalf("removing %s: %v", sb.Name, err)
		}
	})
}

// run runs a shell command that must succeed and returns its output.
func (s Suite) run(t T, sb lifecycle.Sandbox, spec lifecycle.Spec, script string) string {
	t.Helper()
	code, out, errOut := s.exec(t, sb, lifecycle.Process{Args: []string{"sh", "-c", script}, Dir: spec.Root})
	equal(t, fmt.Sprintf("the exit code of %q, which said %q", script, out+errOut), code, 0)
	return out
}

// exec runs a process without a terminal.
func (s Suite) exec(t T, sb lifecycle.Sandbox, p lifecycle.Process) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p.ID, p.Stdout, p.Stderr = rand.Text(), &stdout, &stderr
	code, err := s.Driver.Exec(t.Context(), sb, p)
	noError(t, err)
	return code, stdout.String(), stderr.String()
}

// end is how a process has ended.
type end struct {
	code int
	err  error
}

// begin starts a process; its end is sent.
func (s Suite) begin(t T, sb lifecycle.Sandbox, p lifecycle.Process) <-chan end {
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

// press types keys again and again until the output shows their effect: a
// process may be between two reads, and a change of size takes its time.
func press(t T, term *terminal, keys string, out *buffer, effect string) {
	t.Helper()
	becomes(t, fmt.Sprintf("%q is there after %q was typed", effect, keys), func() (string, bool) {
		seen := out.String()
		if strings.Contains(seen, effect) {
			return seen, true
		}
		_, err := io.WriteString(term.user, keys)
		noError(t, err)
		time.Sleep(50 * time.Millisecond)
		return seen, false
	})
}
