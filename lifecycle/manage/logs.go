package manage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// LogOptions are the options of [Logs].
type LogOptions struct {
	LoopLog
	// Command is one of [run.Transcribed], or empty for loops.
	Command string
	// Iteration selects one run; 0 selects all.
	Iteration int
	// Tail limits what is there already to its last lines; nil for all.
	Tail *int
	// Since leaves out runs that had ended by then.
	Since time.Time
	// Raw prints the agent's own output.
	Raw bool
	// Plain is set if Stdout is not a terminal.
	Plain bool
}

// logEvery is how often a log is read while it is followed.
const logEvery = 200 * time.Millisecond

// Logs prints the log of the latest loop, or the latest output of another command in the
// same worktree. With Follow it returns the loop's
// exit code, otherwise 0.
func Logs(ctx context.Context, h host.Host, opts LogOptions) (int, error) {
	wt, name, err := opts.Find(ctx, h)
	if err != nil {
		return 0, err
	}
	out := h.Stdout
	if !opts.Raw || !opts.Plain {
		out = termsafe.NewWriter(h.Stdout)
	}
	if opts.Command != "" {
		return 0, transcript(h.LogsDir(name), wt, opts, out)
	}
	reading := logReading{opts: opts, out: out, kind: runlog.Rendered}
	if opts.Raw {
		reading.kind = runlog.Raw
	}
	return opts.read(ctx, h, wt, name, reading.show)
}

// logReading prints the log of one loop.
type logReading struct {
	opts LogOptions
	out  io.Writer
	kind runlog.Kind

	begun  bool
	at     runlog.Cursor
	offset int64
}

// show prints new output. The selected run may start later, unless this is the last time.
func (r *logReading) show(log *runlog.Reader, last bool) error {
	err := r.more(log)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if last {
		return fmt.Errorf("loop %s has no iteration %d", log.Loop.ID, r.opts.Iteration)
	}
	return nil
}

func (r *logReading) more(log *runlog.Reader) (err error) {
	out := r.out
	if !r.begun {
		last := r.opts.tail(r.out)
		out = last
		defer func() { err = errors.Join(err, last.flush()) }()
		if !r.opts.Since.IsZero() {
			r.at = log.Since(r.opts.Since)
		}
		r.begun = true
	}
	if r.opts.Iteration > 0 {
		r.offset, err = log.CopyRun(out, r.kind, r.opts.Iteration, r.offset)
		return err
	}
	r.at, err = log.Copy(out, r.kind, r.at)
	return err
}

// tail returns a writer that passes the selected last lines on to out when it is flushed.
func (o LogOptions) tail(out io.Writer) *lastLines { return &lastLines{out: out, lines: o.Tail} }

// lastLines keeps the last lines of what is written to it; without a limit, it passes all on.
type lastLines struct {
	out   io.Writer
	lines *int
	buf   []byte
}

// Write implements [io.Writer].
func (l *lastLines) Write(p []byte) (int, error) {
	if l.lines == nil {
		return l.out.Write(p)
	}
	l.buf = append(l.buf, p...)
	start := len(bytes.TrimSuffix(l.buf, []byte("\n")))
	for range *l.lines {
		if start = bytes.LastIndexByte(l.buf[:start], '\n'); start < 0 {
			return len(p), nil
		}
	}
	l.buf = l.buf[min(start+1, len(l.buf)):]
	return len(p), nil
}

func (l *lastLines) flush() error {
	_, err := l.out.Write(l.buf)
	return err
}

// transcript prints the latest output of a command that is not a loop.
func transcript(logs string, wt gitrepo.Worktree, opts LogOptions, out io.Writer) (err error) {
	if opts.Follow || opts.Iteration > 0 || opts.Loop != "" || !opts.Since.IsZero() {
		return fmt.Errorf("--follow, --iteration, --loop and --since work with plan and build only, not with %s", opts.Command)
	}
	log, err := runlog.LatestTranscript(logs, opts.Command)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no recorded output of %q in %s", "docker ralph "+opts.Command, wt.Root)
	}
	if err != nil {
		return fmt.Errorf("reading the output of %s: %w", opts.Command, err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	last := opts.tail(out)
	_, err = io.Copy(last, log)
	return errors.Join(err, last.flush())
}
