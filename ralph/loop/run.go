package loop

import (
	"cmp"
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
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
	"github.com/docker-ralph/docker-ralph/wire/usage"
)

// outcome is the result of a run.
type outcome struct {
	end       end
	forced    bool           // killed by a signal
	code      int            // exit code
	result    *event.Result  // nil if not reported
	usage     event.Usage    // as reported
	metered   event.Usage    // as counted by the proxy, with an estimated cost
	spent     usage.Spent    // likewise, by model
	atMost    bounded        // the cost, if a model has no price
	model     string         // as reported
	limit     stream.Message // that the agent has reported last
	complaint string
	denied    event.Denied
	hooks     []string       // errors of hooks of the agent's settings
	writing   []event.Tool   // calls that change files, without their results
	unwritten string         // the last such call that failed, and why
	retries   int            // of requests to the model
	retry     string         // the last one
	asking    bool           // the model has not answered since the start, or the last retry
	noKey     stream.Message // message about a missing or rejected key
	apiError  string         // with which an agent ended that reports success
	cause     *limit         // sandbox limit that the run reached, or nil
	tail      string         // end of the output
	lost      []string       // tasks that another agent has claimed since
}

// end is why a run ended.
type end int

const (
	endExited      end = iota // the agent exited
	endDone                   // it reported its result and did not exit
	endInterrupted            // signal
	endTimedOut               // Timeout
	endIdle                   // no output
	endOverTime               // MaxDuration
	endOverCost               // MaxCostUSD
	endOverTokens             // MaxTokens
	endOvertaken              // another agent has claimed its task
	endKeyRefused             // the model's endpoint rejected the key
	endProcesses              // process limit exhausted
)

// run runs the agent once.
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
	// Not killed by ctx: watch kills it with all descendants.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command.Path, command.Args...)
	cmd.Env = slices.Concat(l.Env, command.Env)
	cmd.Stdout, cmd.Stderr = streams.stdout.w, streams.stderr.w
	if command.Stdin != "" {
		cmd.Stdin = strings.NewReader(command.Stdin)
	}
	l.startMeter(ctx)
	limits := l.watchLimits()
	child, err := agent.StartChild(cmd)
	streams.started()
	if err != nil {
		return outcome{}, limits.explain(err)
	}
	w := &watch{loop: l, child: child, limits: limits, chunks: make(chan chunk)}
	read := make(chan error, 1)
	decoder := l.Agent.Decoder()
	go func() { read <- streams.read(decoder, l.showAgent, l.Stderr, w.chunks) }()
	l.running.Store(true)
	w.wait(ctx)
	l.running.Store(false)
	disk := l.fullDisk() // before killed processes release their space
	code, err := child.Wait()
	streams.expire(l.timing.drain)
	o := w.finish()
	if failed := <-read; failed != nil {
		err = errors.Join(err, failed)
	}
	if failed := l.out.err(); failed != nil {
		err = failed
	}
	o.code = code
	if o.cause = cmp.Or(limits.reached(o.end), l.exceeded(o.end)); o.cause == nil && o.end == endExited {
		o.cause = disk
	}
	l.meter(context.WithoutCancel(ctx), &o)
	l.estimateReported(&o)
	o.tail = streams.tail(o.result == nil, event.IsPlainText(decoder))
	return o, err
}

// session returns the session of the next run.
func (l *loop) session() agent.Session {
	s := l.Session
	s.Note = l.nextNote()
	if l.Bounds.MaxCostUSD > 0 {
		s.BudgetUSD = l.Bounds.MaxCostUSD - l.spentUSD()
	}
	return s
}

// pipe is one output of the agent.
type pipe struct {
	r, w *os.File
	tail tail
}

// streams are the outputs of one run.
type streams struct {
	stdout, stderr pipe
	log            io.WriteCloser // nil without a log
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

// started closes the agent's ends of the pipes.
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

// tail returns the end of stderr, and of stdout if there is no result. Without plain, stdout has
// events, too.
func (s *streams) tail(output, plain bool) string {
	text := termsafe.Tail(string(s.stderr.tail), maxTail)
	if output {
		out := termsafe.Tail(string(s.stdout.tail), maxTail)
		if !plain {
			out = withoutEvents(out)
		}
		text = out + "\n" + text
	}
	return strings.TrimSpace(termsafe.Strip(strings.ToValidUTF8(text, "")))
}

// chunk is a piece of the agent's output. It has no events on stderr.
type chunk struct{ events []event.Event }

// read renders both outputs until they end, and closes chunks.
func (s *streams) read(d event.Decoder, display func([]event.Event) error, stderr io.Writer, chunks chan<- chunk) error {
	defer close(chunks)
	var wg sync.WaitGroup
	var failed [2]error
	wg.Go(func() {
		failed[0] = follow(s.stdout.r, d, func(piece []byte, events []event.Event) error {
			s.stdout.tail.add(piece)
			s.logOutput(piece)
			chunks <- chunk{events}
			return display(events)
		})
	})
	wg.Go(func() {
		failed[1] = follow(s.stderr.r, event.PlainText(), func(piece []byte, events []event.Event) error {
			s.stderr.tail.add(piece)
			chunks <- chunk{}
			return show(stderr, events)
		})
	})
	wg.Wait()
	return errors.Join(failed[:]...)
}

// logOutput writes to the log. An error ends the log, not the run.
func (s *streams) logOutput(piece []byte) {
	if s.log == nil {
		return
	}
	if _, err := s.log.Write(piece); err != nil {
		s.warn(fmt.Errorf("logging the agent's output: %w", err))
		_ = s.log.Close()
		s.log = nil
	}
}

// follow reads r to its end, even after an error of handle, so that the agent is not
// blocked.
func follow(r *os.File, d event.Decoder, handle func([]byte, []event.Event) error) (failed error) {
	piece := make([]byte, 64<<10)
	for {
		n, err := r.Read(piece)
		events := d.Decode(piece[:n])
		if err != nil {
			events = append(events, d.End()...)
		}
		if n > 0 || len(events) > 0 {
			if err := handle(piece[:n], events); failed == nil {
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
