package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Bounds of the output of a failed check, in bytes: what is recorded, and what is compared.
const (
	checkTail   = 4 << 10
	compareTail = 64 << 10
)

// check runs the checks if the agent has finished tasks, or committed without one, and rejects the run if one fails.
func (l *loop) check(ctx context.Context, n int, it *iteration) (Stop, error) {
	it.head = l.Head(ctx)
	if l.Backlog == nil || l.AgentID == "" {
		return noStop, nil
	}
	after := l.observeAfter(ctx, it.before)
	if it.before.tasks == nil || after.tasks == nil {
		return l.unchecked()
	}
	it.finished = it.before.finished(after, l.AgentID)
	it.failedByAgent = it.before.failedByAgent(after, it.released)
	l.explain(ctx, it)
	it.asked = it.before.asked(after)
	if err := l.checkBranch(ctx, it); err != nil {
		return Failed, err
	}
	switch {
	case !l.acceptable(it):
		return noStop, nil
	case it.noGit != nil && l.Reset != nil:
		it.blameless = l.fullDisk() != nil
		it.incomplete = !it.blameless // the agent has broken it
		return noStop, l.reject(ctx, it, it.noGit.Error(), "git has failed")
	case len(l.Checks) == 0:
		return noStop, nil
	}
	reason, fault, stop, err := "the loop was interrupted before the checks ran", "", noStop, error(nil)
	if !it.forced {
		reason, fault, stop, err = l.runChecks(ctx, n, it)
	}
	if err != nil {
		reason = fmt.Sprintf("the checks could not be run: %s", err)
	}
	switch {
	case reason == "":
		l.broken = brokenChecks{}
		return stop, nil
	case fault != "":
		return noStop, l.park(ctx, it, fault)
	}
	it.cutShort = it.forced || stop == Interrupted
	if failed := l.reject(ctx, it, reason, "a check failed"); failed != nil {
		return Failed, failed
	}
	return stop, err
}

// unchecked fails a loop whose finished tasks would count as done unchecked, or never.
func (l *loop) unchecked() (Stop, error) {
	if len(l.Checks) == 0 && l.Reset == nil {
		return noStop, nil
	}
	return Failed, errors.New("ending the run: the finished tasks are unknown, because the backlog cannot be read")
}

// runChecks runs the checks up to the first failure. The reason is empty if all passed, and
// fault if the failure is not that of the check.
func (l *loop) runChecks(ctx context.Context, n int, it *iteration) (reason, fault string, stop Stop, err error) {
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
		l.setState(runlog.StateChecking, time.Time{}, command)
		l.printf("Check: %s\n", termsafe.Strip(command))
		out := &checkOutput{log: log}
		how, code, stop, err := l.runCheck(ctx, command, out)
		if err != nil {
			return "", "", Failed, fmt.Errorf("running the check %q: %w", command, err)
		}
		it.checks = append(it.checks, runlog.Check{Command: termsafe.Line(command), Seconds: time.Since(began).Seconds(), ExitCode: code, Failure: how})
		took := rough(time.Since(began))
		if how == "" {
			l.printf("Check passed after %s.\n", took)
			continue
		}
		output := strings.TrimSpace(termsafe.Strip(strings.ToValidUTF8(termsafe.Tail(string(out.tail), checkTail), "")))
		refused := l.collectCheckDenied(ctx, it)
		reason = blockedHosts(refused) + fmt.Sprintf("check %q %s", command, how)
		l.printf("Check %s after %s.\n", how, took)
		if full := l.fullDisk(); full != nil {
			reason += " (" + full.reason + ")"
			l.warnf("the check %s: %s", how, full.reason)
			l.hint("%s", full.remedy)
		}
		if output != "" {
			reason += ":\n" + output
			l.printf("%s\n", output)
		}
		if stop == noStop {
			it.checkRefused, it.rejected = refused, reason
			fault = l.checkFault(ctx, it, command, failedCheck{how, string(out.tail)})
		}
		return reason, fault, stop, nil
	}
	return "", "", noStop, nil
}

// runCheck runs a check in the agent's environment and returns how it failed, and its exit code. It has no
// input, and CI=true, so that it ends by itself. It is not bound by MaxDuration: finished work must be checked.
func (l *loop) runCheck(ctx context.Context, command string, out io.Writer) (how string, code int, stop Stop, err error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", command)
	cmd.Dir, cmd.Env = l.Dir, append(slices.Clip(l.Env), "CI=true")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = l.timing.drain
	child, err := agent.StartChild(cmd)
	if err != nil {
		return "", 0, Failed, err
	}
	timeout := timer(l.checkTimeout())
	defer timeout.Stop()
	defer l.armWatchdog(l.checkTimeout())()
	select {
	case <-child.Done():
	case <-timeout.C:
		how = l.tookTooLong()
	case <-ctx.Done():
		how, stop = "was interrupted", Interrupted
	case sig := <-l.Signals:
		l.endPromptLine(sig)
		how, stop = "was interrupted", Interrupted
	}
	if how != "" {
		child.Kill()
	}
	code, err = child.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // a background process keeps the output open
	}
	if how == "" && code != 0 {
		how = fmt.Sprintf("failed with exit code %d", code)
	}
	if how != "" {
		err = nil // the output of a killed check may be incomplete
	}
	return how, code, stop, err
}

// checkOutput collects the end of a check's output and logs all of it.
type checkOutput struct {
	mu   sync.Mutex
	tail []byte
	log  io.Writer
}

func (c *checkOutput) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = append(c.tail, p...)
	if over := len(c.tail) - compareTail; over > 0 {
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
	if c.log != nil {
		_, _ = c.log.Write(p) // losing the log does not fail the check
	}
	return len(p), nil
}
