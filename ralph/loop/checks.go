package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// checkTail is how much of a failed check's output goes with its task, in
// bytes.
const checkTail = 4 << 10

// check runs the checks if the agent has finished a task. When one fails, what
// the agent has finished is open again.
func (l *loop) check(ctx context.Context, n int, it *iteration) (Stop, error) {
	if l.Backlog == nil || l.AgentID == "" {
		return goOn, nil
	}
	after := l.look(ctx)
	if it.before.tasks == nil || after.tasks == nil {
		return l.unchecked()
	}
	it.finished = it.before.finished(after, l.AgentID)
	it.givenBack = it.before.givenBack(after, it.released)
	if len(it.finished) == 0 || len(l.Checks) == 0 {
		return goOn, nil
	}
	reason, stop, err := "the loop was ended before its checks ran", goOn, error(nil)
	if !it.forced {
		reason, stop, err = l.runChecks(ctx, n)
	}
	if err != nil {
		reason = fmt.Sprintf("its checks could not be run: %s", err)
	}
	if reason == "" {
		l.note = ""
		return stop, nil
	}
	it.reopened, it.finished = it.finished, nil
	l.note = fmt.Sprintf("The task %s was finished before and is open again, because a check failed. Repair that first.\n\n%s\n",
		strings.Join(it.reopened, ", "), reason)
	for _, slug := range it.reopened {
		if err := l.Backlog.Reopen(ctx, slug, reason); err != nil {
			return Failed, fmt.Errorf("reopening task %s after a failed check: %w", slug, err)
		}
		l.printf("reopened %s\n", termsafe.Strip(slug))
	}
	return stop, err
}

// unchecked ends a loop with checks that does not know which tasks are finished:
// they would count as done.
func (l *loop) unchecked() (Stop, error) {
	if len(l.Checks) == 0 {
		return goOn, nil
	}
	return Failed, errors.New("running the checks: the finished tasks are unknown, because the backlog cannot be read")
}

// runChecks runs all checks up to the first that fails. The reason is empty if
// all passed.
func (l *loop) runChecks(ctx context.Context, n int) (reason string, stop Stop, err error) {
	var log io.WriteCloser
	if l.Log != nil {
		if log, err = l.Log.Checks(n); err != nil {
			l.warnOnce("log", "%s; continuing without that log", err)
		} else {
			defer func() { _ = log.Close() }()
		}
	}
	for _, command := range l.Checks {
		began := time.Now()
		l.printf("Check: %s\n", termsafe.Strip(command))
		out := &checkOutput{log: log}
		how, stop, err := l.runCheck(ctx, command, out)
		if err != nil {
			return "", Failed, fmt.Errorf("running the check %q: %w", command, err)
		}
		took := rough(time.Since(began))
		if how == "" {
			l.printf("Check passed after %s.\n", took)
			continue
		}
		said := strings.TrimSpace(termsafe.Strip(strings.ToValidUTF8(string(out.tail), "")))
		l.printf("Check %s after %s.\n%s\n", how, took, said)
		return strings.TrimSpace(fmt.Sprintf("check %q %s:\n%s", command, how, said)), stop, nil
	}
	return "", goOn, nil
}

// runCheck runs one check, and says how it failed. The loop's time does not
// bound it: work that is finished is worth a check. The agent's environment is
// the check's, so that it finds the same programs.
func (l *loop) runCheck(ctx context.Context, command string, out io.Writer) (how string, stop Stop, err error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", command)
	cmd.Dir, cmd.Env = l.Dir, l.Env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = drain
	child, err := agent.StartChild(cmd)
	if err != nil {
		return "", Failed, err
	}
	timeout := timer(l.Timeout)
	defer timeout.Stop()
	defer l.guard()()
	select {
	case <-child.Done():
	case <-timeout.C:
		how = fmt.Sprintf("took longer than %s", l.Timeout)
	case <-ctx.Done():
		how, stop = "was interrupted", Interrupted
	case sig := <-l.Signals:
		l.farewell(sig)
		how, stop = "was interrupted", Interrupted
	}
	if how != "" {
		child.Kill()
	}
	code, err := child.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has left something running, which keeps its output open
	}
	if how == "" && code != 0 {
		how = fmt.Sprintf("failed with exit code %d", code)
	}
	if how != "" {
		err = nil // a killed check's output may be torn
	}
	return how, stop, err
}

// checkOutput keeps the end of a check's output, and all of it in the log.
type checkOutput struct {
	mu   sync.Mutex
	tail []byte
	log  io.Writer
}

func (c *checkOutput) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = append(c.tail, p...)
	if over := len(c.tail) - checkTail; over > 0 {
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
	if c.log != nil {
		_, _ = c.log.Write(p) // a full disk costs the log, not the check
	}
	return len(p), nil
}
