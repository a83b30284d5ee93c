package microvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
)

// Exec implements [lifecycle.Driver]. The program's client gets the user's terminal, with a
// [screen] for its output, or pipes.
func (d *Driver) Exec(ctx context.Context, sb lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	rec, ok := d.ready(sb)
	if !ok {
		return 0, lifecycle.ErrNotPrepared
	}
	c, err := d.client(ctx)
	if err != nil {
		return 0, err
	}
	defer d.keepAwake(ctx, sb, p)()
	cmd := c.command(ctx, d.execArgs(rec, p), p.Env...)
	started := &startMark{to: p.Stderr, mark: []byte(wire.DispatchMark(p.ID) + "\n")}
	if p.Stderr == nil {
		started.to = io.Discard
	}
	p.Stderr = started
	scr, err := connect(cmd, p)
	if err != nil {
		return 0, err
	}
	code, err := d.run(ctx, sb, cmd, p, scr)
	if err != nil {
		return 0, err
	}
	if err := started.end(); err != nil {
		return 0, err
	}
	return d.outcome(ctx, sb, p, code, started.found || p.Terminal != nil)
}

// startMark passes on what a client writes to its standard error, without the line with which "ralph _dispatch" begins it.
type startMark struct {
	to    io.Writer
	mark  []byte
	head  []byte // what may be its beginning
	found bool
	past  bool
}

// Write implements [io.Writer].
func (m *startMark) Write(p []byte) (int, error) {
	if m.past {
		return m.to.Write(p)
	}
	m.head = append(m.head, p...)
	if len(m.head) < len(m.mark) && bytes.HasPrefix(m.mark, m.head) {
		return len(p), nil
	}
	return len(p), m.end()
}

// end passes on what has no complete mark.
func (m *startMark) end() error {
	if m.past {
		return nil
	}
	m.past = true
	if m.head, m.found = bytes.CutPrefix(m.head, m.mark); len(m.head) == 0 {
		return nil
	}
	_, err := m.to.Write(m.head)
	return err
}

// execArgs returns the command line of the client, without the values of variables.
func (d *Driver) execArgs(rec record, p lifecycle.Process) []string {
	opts := execOptions{terminal: p.Terminal != nil, dir: p.Dir}
	for _, kv := range p.Env {
		name, _, _ := strings.Cut(kv, "=")
		opts.env = append(opts.env, name)
	}
	size := "-"
	if p.Terminal != nil {
		opts.detachKeys = p.Terminal.DetachKeys()
		// Some sessions have a terminal without a size.
		if height, width := p.Terminal.Size(); height > 0 && width > 0 {
			size = fmt.Sprintf("%dx%d", height, width)
		}
	}
	args := d.exec(rec.Name, opts, d.guestFolder().path(rec.Prepared), "_dispatch", p.ID, size)
	for _, arg := range p.Args {
		args = append(args, "="+arg) // sbx refuses empty arguments
	}
	return args
}

// connect connects the client's streams. With a terminal, it stays in our process group, to
// use the terminal. Without, it has its own, which Ctrl+C does not reach, and must not read
// a terminal.
func connect(cmd *exec.Cmd, p lifecycle.Process) (*screen, error) {
	if p.Terminal != nil {
		stdin, stdout, stderr := p.Terminal.Files()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		cmd.SysProcAttr, cmd.Cancel = nil, nil
		return newScreen(cmd, p)
	}
	cmd.Stdout, cmd.Stderr = p.Stdout, p.Stderr
	if p.Stdin == nil {
		return nil, nil
	}
	if f, ok := p.Stdin.(*os.File); ok && !term.IsTerminal(f.Fd()) {
		cmd.Stdin = f
		return nil, nil
	}
	// Not cmd.Stdin: its end would wait for the input's.
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting the input: %w", err)
	}
	go func() {
		_, _ = io.Copy(pipe, p.Stdin) // fails when the command has ended
		_ = pipe.Close()
	}()
	return nil, nil
}

// run runs the client to its end and returns its exit code, -1 if a signal
// ended it.
func (d *Driver) run(ctx context.Context, sb lifecycle.Sandbox, cmd *exec.Cmd, p lifecycle.Process, scr *screen) (int, error) {
	restore := keepTerminal(p)
	defer restore()
	if err := cmd.Start(); err != nil {
		_ = scr.end()
		return 0, fmt.Errorf("running %s in sandbox %s: %w", p.Args[0], sb.Name, err)
	}
	scr.show(p.Stdout)
	defer scr.close() // before the terminal is put back
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var changed, lost <-chan struct{}
	if p.Terminal != nil {
		changed, lost = p.Terminal.Resized(), p.Lost
	}
	for {
		select {
		case <-changed:
			scr.resize(p.Terminal)
			signalResize(cmd)
		case <-lost:
			endClient(cmd, ended) // the terminal is its own
			return -1, nil
		case err := <-ended:
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return exit.ExitCode(), nil
			}
			if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
				return 0, fmt.Errorf("running %s in sandbox %s: %w", p.Args[0], sb.Name, err)
			}
			return 0, nil
		}
	}
}

// isLost reports whether the terminal of a process is lost. A client can notice that
// a moment earlier.
func isLost(p lifecycle.Process) bool {
	if p.Lost == nil {
		return false
	}
	select {
	case <-p.Lost:
		return true
	case <-time.After(lostDelay):
		return false
	}
}

// lostDelay is how much later than its client we may notice a lost terminal.
const lostDelay = time.Second

// keepTerminal saves the state of the terminal, which a killed client does not
// restore.
func keepTerminal(p lifecycle.Process) (restore func()) {
	if p.Terminal == nil {
		return func() {}
	}
	stdin, _, _ := p.Terminal.Files()
	state, err := term.SaveState(stdin.Fd())
	if err != nil {
		return func() {}
	}
	return func() { _ = term.RestoreTerminal(stdin.Fd(), state) }
}

func endClient(cmd *exec.Cmd, ended <-chan error) {
	_ = cmd.Process.Signal(os.Interrupt)
	select {
	case <-ended: //nolint:errcheck // we have ended it
	case <-time.After(killDelay):
		_ = cmd.Process.Kill()
		<-ended //nolint:errcheck // we have ended it
	}
}

// outcome distinguishes the command's exit code from the program's own. Codes that the program uses itself are the
// command's only if that has started, and does not run in a running sandbox.
func (d *Driver) outcome(ctx context.Context, sb lifecycle.Sandbox, p lifecycle.Process, code int, started bool) (int, error) {
	if (code == 126 || code == 127) && (!started || p.Args[0] == wire.Program && !p.AnyCode) {
		// ralph is missing or cannot be run: it has no such codes itself.
		return 0, errors.Join(lifecycle.ErrNotPrepared, d.recordPrepared(ctx, sb, ""))
	}
	switch code {
	case -1, 1, 125, 126, 127, 137, 255:
	default:
		return code, nil
	}
	found, err := d.Lookup(ctx, sb.Name)
	if err != nil {
		return 0, lostContact(p, sb, code, err)
	}
	switch found.State {
	case lifecycle.Running:
	case lifecycle.NotFound:
		return 0, hint.Wrap(fmt.Errorf("sandbox %s was removed while the command was running", sb.Name), "run the command again to recreate it")
	case lifecycle.Unknown:
		return 0, fmt.Errorf("sandbox %s was lost: %s", sb.Name, found.Why)
	default:
		return 0, hint.Wrap(fmt.Errorf("sandbox %s was stopped while %s ran in it", sb.Name, p.Args[0]), "run the command again: your files and the backlog are kept")
	}
	running, err := d.Dispatches(ctx, sb)
	runs := slices.ContainsFunc(running, func(r lifecycle.Dispatch) bool { return r.ID == p.ID })
	switch {
	case err != nil:
		return 0, lostContact(p, sb, code, err)
	case runs && p.Terminal != nil && (code >= 0 || isLost(p)):
		return 0, lifecycle.ErrDetached
	case runs:
		return 0, stopHint(fmt.Errorf("lost the connection to sandbox %s: %s is still running", sb.Name, p.Args[0]), sb.Name)
	case !started:
		return 0, hint.Wrap(fmt.Errorf("%s did not run %s in sandbox %s (exit code %d)", d.name, p.Args[0], sb.Name, code), "see its output above")
	case code == -1:
		return 0, fmt.Errorf("lost the connection to sandbox %s: the exit code of %s is unknown", sb.Name, p.Args[0])
	}
	return code, nil
}

func lostContact(p lifecycle.Process, sb lifecycle.Sandbox, code int, err error) error {
	return hint.Wrap(fmt.Errorf("lost contact with %q in sandbox %s (exit code %d): %w", p.Args[0], sb.Name, code, err), "see whether it still runs with %q", "docker ralph ls")
}

func stopHint(err error, name string) error {
	return hint.Wrap(err, "stop it with %q", "docker ralph stop --now "+name)
}
