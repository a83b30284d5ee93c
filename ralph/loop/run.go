package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
	"github.com/docker-ralph/docker-ralph/ralph/agent/proc"
)

// drain is how long the agent's output is read after its last process is
// gone. Only where processes of it can escape does it take that long.
const drain = 10 * time.Second

// runResult is how one run of the agent ended.
type runResult struct {
	event.Result
	complaint string
	code      int // exit code of the agent
	end       end
}

// end is why a run ended.
type end int

const (
	endItself      end = iota // the agent has exited
	endInterrupted            // somebody wanted it
	endTimedOut               // it took too long
)

type rendered struct {
	result    event.Result
	complaint string
	err       error
}

// render shows what the agent reports as it comes.
func render(w io.Writer, r io.Reader, d event.Decoder) (out rendered) {
	show := func(events []event.Event) {
		for _, e := range events {
			switch e := e.(type) {
			case event.Result:
				out.result = e
			case event.Complaint:
				out.complaint = e.Text
			}
			if _, err := io.WriteString(w, event.Render(e)); err != nil {
				out.err = fmt.Errorf("writing the agent's output: %w", err)
			}
		}
	}
	piece := make([]byte, 64<<10)
	for out.err == nil {
		n, err := r.Read(piece)
		show(d.Decode(piece[:n]))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			out.err = fmt.Errorf("reading the agent's output: %w", err)
		}
	}
	show(d.End())
	return out
}

// run starts the agent and stays with it to its end.
func (l *loop) run(ctx context.Context) (runResult, error) {
	if err := l.out.err(); err != nil {
		return runResult{}, err
	}
	command, err := l.Agent.Prepare(ctx, l.Session)
	if err != nil {
		return runResult{}, fmt.Errorf("preparing the agent: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return runResult{}, fmt.Errorf("preparing the agent: %w", err)
	}
	defer func() { _ = r.Close() }()
	// Not killed by ctx: watch does it, with all descendants.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command.Path, command.Args...)
	cmd.Env = append(slices.Clone(l.Env), command.Env...)
	cmd.Stdout, cmd.Stderr = w, l.Stderr
	child, err := proc.Start(cmd)
	_ = w.Close()
	if err != nil {
		return runResult{}, err
	}
	reading := make(chan rendered, 1)
	go func() {
		reading <- render(l.out, r, l.Agent.Decoder())
	}()
	why := l.watch(ctx, child)
	code, err := child.Wait()
	_ = r.SetReadDeadline(time.Now().Add(drain))
	output := <-reading
	switch failed := l.out.err(); {
	case failed != nil:
		err = failed
	case output.err != nil && !errors.Is(output.err, os.ErrDeadlineExceeded):
		err = errors.Join(err, output.err)
	}
	return runResult{output.result, output.complaint, code, why}, err
}

// watch passes the user's wishes on until the agent has ended, and says why
// it has.
func (l *loop) watch(ctx context.Context, child *proc.Child) end {
	var timeout <-chan time.Time
	if l.Timeout > 0 {
		timer := time.NewTimer(l.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	kill := func(why end) end {
		child.Kill()
		<-child.Done()
		return why
	}
	why := endItself
	for {
		select {
		case <-child.Done():
			return why
		case <-ctx.Done():
			return kill(endInterrupted)
		case <-timeout:
			return kill(endTimedOut)
		case <-l.out.broken():
			return kill(why)
		case sig := <-l.Signals:
			if sig != os.Interrupt || why == endInterrupted {
				return kill(endInterrupted)
			}
			l.printf("\nWaiting for %s to finish cleanup... Press Ctrl+C again to force quit.\n", l.Agent.Name())
			child.Interrupt()
			why = endInterrupted
		}
	}
}

// syncWriter is standard output for the loop and the renderer. After the
// first error nothing more is written.
type syncWriter struct {
	mu     sync.Mutex
	w      io.Writer
	failed error
	ended  chan struct{}
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return 0, s.failed
	}
	n, err := s.w.Write(p)
	if err != nil {
		s.failed = err
		close(s.ended)
	}
	return n, err
}

// broken is closed when nobody reads the output any more.
func (s *syncWriter) broken() <-chan struct{} { return s.ended }

func (s *syncWriter) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		return nil
	}
	return fmt.Errorf("writing the output: %w", s.failed)
}
