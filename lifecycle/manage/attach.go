package manage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"

	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Attach attaches to a background loop: it prints its output, forwards signals, and
// returns its exit code. The error is [lifecycle.ErrDetached] if the user has detached
// again.
func Attach(ctx context.Context, h host.Host, target LoopTarget) (int, error) {
	wt, name, err := target.Find(ctx, h)
	if err != nil {
		return 0, err
	}
	n, err := detached(ctx, h, name, wt) // before it can go on, and end
	if err != nil {
		return 0, err
	}
	stop := contact(ctx, h, wt, name)
	code, err := attachTo(ctx, h, n, name)
	stop(err == nil || errors.Is(err, run.ErrUnknownEnd))
	if err != nil {
		return code, err
	}
	return endFor(ctx, h, wt, name, code)
}

func attachTo(ctx context.Context, h host.Host, n host.Record, name string) (int, error) {
	f := newFollower(h, name, n.ID)
	output, err := outputOf(ctx, f, n)
	if err != nil {
		return 0, err
	}
	defer output.Close()
	return attach(ctx, h, f, n, output)
}

// detached finds the latest background loop in the sandboxes of a worktree, the first of
// which has the name.
func detached(ctx context.Context, h host.Host, name string, wt gitrepo.Worktree) (host.Record, error) {
	all, err := h.RecordsOf(name)
	if err != nil {
		return host.Record{}, err
	}
	all = slices.DeleteFunc(all, func(n host.Record) bool { return n.Scope != wt.Scope || n.Root != wt.Root })
	var found host.Record
	elsewhere := false
	for _, n := range all {
		if !n.IsLoop() {
			continue
		}
		if n.Live && !n.Detached {
			elsewhere = true
			continue
		}
		running := n.Live
		if !running {
			if running, err = newFollower(h, name, n.ID).check(ctx); err != nil {
				return host.Record{}, err
			}
		}
		if running && (found.ID == "" || n.Since.After(found.Since)) {
			found = n
		}
	}
	switch {
	case found.ID != "":
		return found, nil
	case elsewhere:
		return host.Record{}, hint.Wrap(fmt.Errorf("the loop in sandbox %s is attached to another terminal", name), "follow it with %q", "docker ralph logs -f "+name)
	}
	none := fmt.Sprintf("no background loop in sandbox %s", name)
	if e, err := host.Ended(h.StateDir, name); err == nil {
		return host.Record{}, hint.Wrap(fmt.Errorf("%s: %s", none, e), "see its output with %q", "docker ralph logs "+name)
	}
	log, err := runlog.Find(h.LogsDir(name), runlog.Any)
	if err == nil {
		defer log.Close()
		if !log.Loop.Ended.IsZero() {
			return host.Record{}, hint.Wrap(fmt.Errorf("%s: the last loop has ended", none), "see its output with %q", "docker ralph logs "+name)
		}
	}
	return host.Record{}, hint.Wrap(errors.New(none), "start one with %q", "docker ralph build --detach")
}

// output is the output of a loop.
type output interface {
	Copy(w io.Writer) error
	Close()
}

// outputOf opens the output of a loop: what a detached one has printed, or else its log, for which it waits.
func outputOf(ctx context.Context, f *follower, n host.Record) (output, error) {
	if n.Log != "" && n.Live {
		return run.OpenRolling(n.Log, run.AttachBefore)
	}
	log, err := f.awaitLog(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%q has ended without a log", strings.Join(n.Command, " "))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the output of %q: %w", strings.Join(n.Command, " "), err)
	}
	o := &loopOutput{log: log}
	var before run.Tail
	if o.at, err = log.Copy(&before, runlog.Rendered, runlog.Cursor{}); err != nil {
		log.Close()
		return nil, err
	}
	before.End = before.End[max(0, len(before.End)-run.AttachBefore):]
	if i := bytes.IndexByte(before.End, '\n'); before.Cut && i >= 0 {
		before.End = before.End[i+1:]
	}
	o.before = before.End
	return o, nil
}

// loopOutput is the log of a loop.
type loopOutput struct {
	log    *runlog.Reader
	at     runlog.Cursor
	before []byte
}

func (o *loopOutput) Copy(w io.Writer) (err error) {
	if len(o.before) > 0 {
		if _, err := w.Write(o.before); err != nil {
			return err
		}
		o.before = nil
	}
	o.at, err = o.log.Copy(w, runlog.Rendered, o.at)
	return err
}

func (o *loopOutput) Close() { o.log.Close() }

// attach prints the output and forwards signals, until the loop has ended or the user
// detaches.
func attach(ctx context.Context, h host.Host, f *follower, n host.Record, from output) (int, error) {
	to, keys, restore, err := takeTerminal(h)
	if err != nil {
		return 0, err
	}
	defer restore()
	signals, stop := h.Forward(ctx)
	defer stop()
	failed := make(chan error, 1)
	forward := func(sig os.Signal) { go signal(context.WithoutCancel(ctx), h, f, sig, failed) }
	return follow(ctx, f.done, func(bool) error { return from.Copy(to) }, func(tick <-chan time.Time) error {
		select {
		case sig := <-signals:
			forward(sig)
		case key := <-keys:
			if errors.Is(key, lifecycle.ErrDetached) {
				restore()
				h.Report(fmt.Sprintf("\nDetached: %s continues in sandbox %s", strings.Join(n.Command[:2], " "), f.sandbox))
				if !n.Live {
					run.LeaveLoop(ctx, h, f.sandbox)
				}
				return lifecycle.ErrDetached
			}
			forward(os.Interrupt)
		case err := <-failed:
			return fmt.Errorf("%w; the loop continues", err)
		case <-terminalLost(h):
			return lifecycle.ErrDetached
		case <-tick:
		}
		return nil
	})
}

func terminalLost(h host.Host) <-chan struct{} {
	if h.Background == nil {
		return nil
	}
	return h.Background.Lost
}

// signalTimeout bounds sending a signal to a sandbox.
const signalTimeout = 20 * time.Second

// signal sends a signal to the loop.
func signal(ctx context.Context, h host.Host, f *follower, sig os.Signal, failed chan<- error) {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	driver, sb, err := h.LookupSandbox(ctx, f.sandbox)
	if err == nil {
		err = lifecycle.Signal(ctx, driver, sb, sig, f.id)
	}
	if err != nil && !errors.Is(err, lifecycle.ErrNoProcess) { // it has just ended
		select {
		case failed <- err:
		default:
		}
	}
}

// errInterrupt is Ctrl+C on a raw terminal.
var errInterrupt = errors.New("interrupted")

// takeTerminal makes the terminal raw, if there is one, to read keys: the detach keys are
// [lifecycle.ErrDetached], Ctrl+C is errInterrupt.
func takeTerminal(h host.Host) (to io.Writer, keys <-chan error, restore func(), err error) {
	to = termsafe.NewWriter(h.Stdout)
	if h.Terminal == nil {
		return to, nil, func() {}, nil
	}
	detach := []byte{16, 17} // ctrl-p ctrl-q, Docker's default
	if text := h.Terminal.DetachKeys(); text != "" {
		if detach, err = term.ToBytes(text); err != nil {
			return nil, nil, nil, fmt.Errorf("reading detachKeys of Docker's configuration: %w", err)
		}
	}
	if restore, err = h.Terminal.MakeRaw(); err != nil {
		return nil, nil, nil, fmt.Errorf("setting up the terminal: %w", err)
	}
	pressed := make(chan error, 4)
	go readKeys(term.NewEscapeProxy(h.Stdin, detach), pressed)
	return termsafe.NewWriter(run.RawLines{To: h.Stdout}), pressed, restore, nil
}

// readKeys reads keys until the end of the input.
func readKeys(in io.Reader, pressed chan<- error) {
	typed := make([]byte, 64)
	for {
		n, err := in.Read(typed)
		for range bytes.Count(typed[:n], []byte{3}) {
			pressed <- errInterrupt
		}
		if _, ok := errors.AsType[term.EscapeError](err); ok {
			pressed <- lifecycle.ErrDetached
		}
		if err != nil {
			return
		}
	}
}
