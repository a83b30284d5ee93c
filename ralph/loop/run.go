package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// drain is how long the agent's output is read after its last process is
// gone. Only where processes of it can escape does it take that long.
const drain = 10 * time.Second

// outcome is how one run of the agent ended.
type outcome struct {
	end       end
	forced    bool          // a signal ended it at once
	code      int           // exit code of the agent
	result    *event.Result // nil if it reported none
	usage     event.Usage
	limit     *event.RateLimit
	complaint string
	noKey     string   // what was said about a missing or refused key
	cause     *limit   // of the sandbox, that the run reached; nil if it reached none
	tail      string   // the last words of an agent without a result
	damage    string   // what it did to the backlog that no agent may do
	lost      []string // tasks that another agent has claimed since
}

// end is why a run ended.
type end int

const (
	endItself      end = iota // the agent has exited
	endDone                   // it had said its last word, and stayed
	endInterrupted            // somebody wanted it
	endTimedOut               // it took too long
	endIdle                   // it said nothing for too long
	endOverTime               // the loop's time is over
	endOverCost               // the loop's money is spent
	endOverTokens             // the loop's tokens are used up
	endOvertaken              // another agent has claimed its task
	endKeyRefused             // the model's endpoint does not accept its key
	endProcesses              // it has used up the process limit
)

// run starts the agent and stays with it to its end.
func (l *loop) run(ctx context.Context, n int) (outcome, error) {
	if err := l.out.err(); err != nil {
		return outcome{}, err
	}
	command, err := l.Agent.Prepare(ctx, l.session())
	if err != nil {
		return outcome{}, fmt.Errorf("preparing the agent: %w", err)
	}
	if command.Warning != "" {
		l.warnOnce(command.Warning, "%s", command.Warning)
	}
	streams, err := l.openStreams(n)
	if err != nil {
		return outcome{}, fmt.Errorf("preparing the agent: %w", err)
	}
	defer streams.close()
	// Not killed by ctx: watch does it, with all descendants.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command.Path, command.Args...)
	cmd.Env = slices.Concat(l.Env, l.runEnv, command.Env)
	cmd.Stdout, cmd.Stderr = streams.stdout.w, streams.stderr.w
	if command.Stdin != "" {
		cmd.Stdin = strings.NewReader(command.Stdin)
	}
	limits := l.watchLimits()
	child, err := agent.StartChild(cmd)
	streams.started()
	if err != nil {
		return outcome{}, limits.explain(err)
	}
	w := &watch{loop: l, child: child, limits: limits, heard: make(chan heard), now: runlog.Now{N: n, Started: time.Now().UTC()}}
	l.noteNow(w.now)
	read := make(chan error, 1)
	go func() { read <- streams.read(l.Agent.Decoder(), l.out, l.Stderr, w.heard) }()
	w.wait(ctx)
	disk := l.fullDisk() // what is ended now may give its space back
	code, err := child.Wait()
	streams.expire(drain)
	o := w.finish() // the streams have ended then
	if failed := <-read; failed != nil {
		err = errors.Join(err, failed)
	}
	if failed := l.out.err(); failed != nil {
		err = failed
	}
	o.code = code
	if o.cause = limits.reached(o.end); o.cause == nil && o.end == endItself {
		o.cause = disk
	}
	o.tail = streams.lastWords(o.result == nil)
	return o, err
}

// session is what the next run is told and allowed.
func (l *loop) session() agent.Session {
	s := l.Session
	s.Note = l.noted()
	if l.Bounds.MaxCostUSD > 0 {
		s.BudgetUSD = l.Bounds.MaxCostUSD - l.totals.CostUSD
	}
	return s
}

// pipe is one output of the agent.
type pipe struct {
	r, w *os.File
	tail tail
}

// streams are the outputs of one run, and where they are kept.
type streams struct {
	stdout, stderr pipe
	log            io.WriteCloser // nil if nothing is kept
	warn           func(error)
}

func (l *loop) openStreams(n int) (*streams, error) {
	s := &streams{warn: func(err error) {
		l.warnOnce("log", "%s; continuing without that log", err)
	}}
	for _, p := range []*pipe{&s.stdout, &s.stderr} {
		var err error
		if p.r, p.w, err = os.Pipe(); err != nil {
			s.close()
			return nil, err
		}
	}
	if l.Log != nil {
		var err error
		if s.log, err = l.Log.Stream(n); err != nil {
			s.log = nil
			s.warn(err)
		}
	}
	return s, nil
}

// started closes the ends that the agent has now.
func (s *streams) started() {
	_ = s.stdout.w.Close()
	_ = s.stderr.w.Close()
}

func (s *streams) expire(after time.Duration) {
	_ = s.stdout.r.SetReadDeadline(time.Now().Add(after))
	_ = s.stderr.r.SetReadDeadline(time.Now().Add(after))
}

func (s *streams) close() {
	for _, f := range []*os.File{s.stdout.r, s.stdout.w, s.stderr.r, s.stderr.w} {
		if f != nil {
			_ = f.Close()
		}
	}
	if s.log != nil {
		if err := s.log.Close(); err != nil {
			s.warn(err)
		}
	}
}

// lastWords is what the agent said at its end: its errors, and its output too
// where that has no end of its own.
func (s *streams) lastWords(output bool) string {
	words := string(s.stderr.tail)
	if output {
		words = string(s.stdout.tail) + "\n" + words
	}
	return strings.TrimSpace(termsafe.Strip(strings.ToValidUTF8(words, "")))
}

// heard is something that the agent has printed.
type heard struct{ events []event.Event }

// read shows both outputs as they come, until they end, and closes said.
func (s *streams) read(d event.Decoder, stdout, stderr io.Writer, said chan<- heard) error {
	defer close(said)
	var wg sync.WaitGroup
	var failed [2]error
	wg.Go(func() {
		failed[0] = follow(s.stdout.r, d, func(piece []byte, events []event.Event) error {
			s.stdout.tail.add(piece)
			s.keep(piece)
			said <- heard{events}
			return show(stdout, events)
		})
	})
	wg.Go(func() {
		failed[1] = follow(s.stderr.r, event.PlainText(), func(piece []byte, events []event.Event) error {
			s.stderr.tail.add(piece)
			said <- heard{}
			return show(stderr, events)
		})
	})
	wg.Wait()
	return errors.Join(failed[:]...)
}

// keep writes to the log. A full disk costs the log, not the work.
func (s *streams) keep(piece []byte) {
	if s.log == nil {
		return
	}
	if _, err := s.log.Write(piece); err != nil {
		s.warn(fmt.Errorf("keeping the agent's output: %w", err))
		_ = s.log.Close()
		s.log = nil
	}
}

// follow reads r to its end. After an error of hear it still reads, so that
// the agent is not stuck.
func follow(r *os.File, d event.Decoder, hear func([]byte, []event.Event) error) (failed error) {
	piece := make([]byte, 64<<10)
	for {
		n, err := r.Read(piece)
		events := d.Decode(piece[:n])
		if err != nil {
			events = append(events, d.End()...)
		}
		if n > 0 || len(events) > 0 {
			if err := hear(piece[:n], events); failed == nil {
				failed = err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return failed
		case err != nil:
			return errors.Join(failed, fmt.Errorf("reading the agent's output: %w", err))
		}
	}
}
