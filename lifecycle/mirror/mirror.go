// Package mirror copies the logs of loops between worktrees and their clones in sandboxes.
// Whatever reads logs on the host reads those of the worktree.
package mirror

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	wiremirror "github.com/docker-ralph/docker-ralph/wire/mirror"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Command is the hidden command of ralph that sends and receives logs.
const Command = "_mirror"

const (
	// silenceMax is how long a sandbox may send nothing.
	silenceMax = 30 * time.Second
	// lockTimeout bounds how long a pass waits for that of another process.
	lockTimeout = 5 * time.Second
	// heartbeat is the interval of requests while logs are followed.
	heartbeat = 2 * time.Second
	// fresh is how long after an answered request the logs are up to date.
	fresh = 3 * heartbeat
	// finishTimeout is how long Finish waits for another process.
	finishTimeout = 5 * heartbeat
	// divergedMax limits attempts in a row after files that were not the beginning of the
	// sandbox's.
	divergedMax = 5
	// pushedLoops is how many loops [Push] sends.
	pushedLoops = 5
)

var errSilent = errors.New("the sandbox is not responding")

// Is reports whether a process in a sandbox only copies logs. It ends when its host does.
func Is(d lifecycle.Dispatch) bool {
	return d.Service() && len(d.Command) > 1 && d.Command[1] == Command
}

// logs are those of one sandbox and its worktree.
type logs struct {
	host   host.Host
	driver lifecycle.Driver
	sb     lifecycle.Sandbox
	// diverged are files that have to be sent as a whole.
	diverged map[string]bool
}

func newLogs(h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox) *logs {
	return &logs{host: h, driver: driver, sb: sb, diverged: map[string]bool{}}
}

// Sync copies the logs of a running clone sandbox into its worktree. It does nothing for other
// sandboxes, and while another process follows the logs.
func Sync(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox) error {
	_, err := Copy(ctx, h, driver, sb)
	return err
}

// Copy does the same, and reports whether the logs are up to date: another process that follows them
// can be behind.
func Copy(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox) (complete bool, err error) {
	if !sb.Clone {
		return true, nil
	}
	return newLogs(h, driver, sb).sync(ctx)
}

func (l *logs) sync(ctx context.Context) (complete bool, _ error) {
	unlock, err := l.lock(ctx)
	if err != nil || unlock == nil {
		return false, err
	}
	defer unlock()
	err = l.copy(ctx)
	return err == nil, err
}

// Finish copies the logs of a running clone sandbox, in which nothing else runs, before it is
// removed. It is an error if another process keeps it from that, and does not copy them itself.
func Finish(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox) error {
	now := time.Now()
	return newLogs(h, driver, sb).finish(ctx, now.Add(heartbeat), now.Add(finishTimeout))
}

// finish copies all logs, or waits until another process has done that: until an answer to it that
// comes after a time, which its requests precede by less than a heartbeat.
func (l *logs) finish(ctx context.Context, after, end time.Time) error {
	for {
		unlock, err := l.tryLock()
		if unlock != nil {
			defer unlock()
			return l.copy(ctx)
		}
		if err != nil || l.touched().After(after) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("copying the logs of the sandbox %s: %w", l.sb.Name, errHeld)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// copy copies all logs. The caller has the lock.
func (l *logs) copy(ctx context.Context) (err error) {
	for range divergedMax {
		err = l.once(ctx)
		if _, again := errors.AsType[*wiremirror.DivergedError](err); !again {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("copying the logs of the sandbox %s: %w", l.sb.Name, err)
	}
	return nil
}

// once does one pass.
func (l *logs) once(ctx context.Context) error {
	r, err := l.receiver()
	if err != nil {
		return err
	}
	defer r.close()
	var hello bytes.Buffer
	if err := wiremirror.WriteHello(&hello, r.hello(false)); err != nil {
		return err
	}
	complete := false
	err = l.connect(ctx, &hello, "send", func(in *bufio.Reader, _ func()) error {
		return r.read(in, func(uint64) { complete = true })
	})
	if err == nil && !complete {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Push copies the newest loops of the worktree into a running clone sandbox that does not have
// them, so that they can be resumed there.
func Push(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox) error {
	if !sb.Clone {
		return nil
	}
	l := newLogs(h, driver, sb)
	stdin, frames := io.Pipe()
	err := l.connect(ctx, stdin, "receive", func(in *bufio.Reader, alive func()) error {
		has, err := wiremirror.ReadHello(in)
		if err == nil {
			source := wiremirror.NewSource(sb.Root, has, &watchedWriter{frames, alive})
			source.Newest = pushedLoops
			err = source.Pass(false, 1)
		}
		_ = frames.CloseWithError(err) // the end, without an error
		if err == nil {
			_, err = io.Copy(io.Discard, in)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("copying logs into the sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// connect runs one of the two modes of [Command], until it exits or read fails.
func (l *logs) connect(ctx context.Context, stdin io.Reader, mode string, read func(in *bufio.Reader, alive func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(silenceMax, func() { cancel(errSilent) })
	defer silence.Stop()
	alive := func() { silence.Reset(silenceMax) }
	out, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := read(bufio.NewReaderSize(&watchedReader{out, alive}, 64<<10), alive)
		if err != nil {
			cancel(err)
		}
		_ = out.CloseWithError(io.ErrClosedPipe) // no more output is read
		done <- err
	}()
	err := lifecycle.RunService(ctx, l.driver, l.sb, stdin, stdout, wire.Program, Command, mode)
	if closer, ok := stdin.(*io.PipeReader); ok {
		_ = closer.Close() // nothing reads it any more
	}
	_ = stdout.CloseWithError(err) // io.EOF without an error
	readErr := <-done
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, readErr) {
		return cause
	}
	if lost := errors.Is(readErr, io.ErrUnexpectedEOF) || errors.Is(readErr, io.ErrClosedPipe); readErr == nil || lost && err != nil {
		return err
	}
	return readErr
}

// watchedReader calls alive for each read.
type watchedReader struct {
	from  io.Reader
	alive func()
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	w.alive()
	return n, err
}

// watchedWriter calls alive for each write.
type watchedWriter struct {
	to    io.Writer
	alive func()
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.alive()
	return n, err
}

// receiver writes what one connection brings into the worktree.
type receiver struct {
	*logs
	sink    *wiremirror.Sink
	record  record
	saved   record
	created bool // a loop that the worktree did not have
}

func (l *logs) receiver() (*receiver, error) {
	sink, err := wiremirror.OpenSink(l.sb.Root, host.FileOwner(l.sb.Root))
	if err != nil {
		return nil, err
	}
	r := &receiver{logs: l, sink: sink, record: l.readRecord()}
	r.saved = r.record.clone()
	sink.Created = func(loop string) { r.record.Loops[loop], r.created = true, true }
	sink.Prune = func(loop string) bool {
		brought := r.record.Loops[loop]
		delete(r.record.Loops, loop)
		return brought
	}
	return r, nil
}

func (r *receiver) close() {
	r.save()
	r.sink.Close()
	if r.created { // the sandbox prunes its own
		runlog.Prune(r.sb.Root, func(loop string) bool { return r.record.Loops[loop] })
	}
}

// hello is what the worktree has.
func (r *receiver) hello(follow bool) wiremirror.Hello {
	files := maps.Clone(r.sink.Files())
	for path := range r.diverged {
		delete(files, path)
	}
	h := wiremirror.Hello{Follow: follow, Files: files}
	for loop := range r.record.Loops {
		h.Loops = append(h.Loops, loop)
	}
	return h
}

// read applies frames until the connection ends, and calls synced after each pass.
func (r *receiver) read(in *bufio.Reader, synced func(request uint64)) error {
	for {
		h, payload, err := wiremirror.ReadFrame(in)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err == nil {
			err = r.sink.Apply(h, payload)
		}
		if d, diverged := errors.AsType[*wiremirror.DivergedError](err); diverged {
			r.diverged[d.Path] = true
		}
		if err != nil {
			return err
		}
		delete(r.diverged, h.Path)
		if h.Kind == wiremirror.Synced {
			r.save()
			synced(h.Pass)
		}
	}
}

// touch records that the logs are up to date. Nothing depends on an error.
func (l *logs) touch(at time.Time) { _ = os.Chtimes(l.lockPath(), at, at) }
