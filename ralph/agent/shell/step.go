package shell

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	// grace is how long a step's background processes may keep its output
	// open when the step itself has ended.
	grace = 500 * time.Millisecond
	// maxTail bounds how much output goes into the backlog, in bytes.
	maxTail = 2000
	// maxPending bounds an output line that waits for its end, in bytes.
	maxPending = 32 << 10
)

func byRetries(tasks []backlog.Task) []backlog.Task {
	return slices.SortedStableFunc(slices.Values(tasks), func(x, y backlog.Task) int {
		return cmp.Compare(x.RetryCount, y.RetryCount)
	})
}

// runStep runs one step. Its output is shown line by line. An interrupt from
// the keyboard reaches the step by itself; nothing is killed here.
func (a *Agent) runStep(ctx context.Context, number int, step string) error {
	out := &output{show: a.out.Text}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", step)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = grace
	err := cmd.Run()
	out.flush()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrWaitDelay): // something in the background went on
		return nil
	case errors.As(err, &exit):
		what := "exit code " + fmt.Sprint(exit.ExitCode())
		if exit.ExitCode() < 0 {
			what = exit.String()
		}
		if ctx.Err() != nil {
			what = "interrupted, " + what
		}
		return &failure{strings.TrimSpace(fmt.Sprintf("step %d failed (%s): %s\n%s", number, what, step, out.last()))}
	case err != nil:
		return &failure{fmt.Sprintf("step %d cannot be run: %s", number, err)}
	}
	return out.err
}

// output shows what a step prints, and keeps the end of it.
type output struct {
	show    func(string) error
	pending []byte // a line that has not ended
	tail    []byte
	err     error // the first one of show
}

func (o *output) Write(p []byte) (int, error) {
	o.tail = append(o.tail, p...)
	if n := len(o.tail) - maxTail; n > 0 {
		o.tail = slices.Delete(o.tail, 0, n)
	}
	o.pending = append(o.pending, p...)
	end := bytes.LastIndexByte(o.pending, '\n') + 1
	if end == 0 && len(o.pending) > maxPending {
		end = len(o.pending)
	}
	o.emit(end)
	// A broken display must not look like a failure of the step.
	return len(p), nil
}

func (o *output) emit(end int) {
	if end > 0 && o.err == nil {
		o.err = o.show(string(o.pending[:end]))
	}
	o.pending = slices.Delete(o.pending, 0, end)
}

func (o *output) flush() {
	if len(o.pending) > 0 {
		o.pending = append(o.pending, '\n')
	}
	o.emit(len(o.pending))
}

// last returns the end of the output, fit for being printed.
func (o *output) last() string {
	return strings.TrimSpace(termsafe.Strip(strings.ToValidUTF8(string(o.tail), "")))
}

// head returns the current commit, or "" if there is none.
func head(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// commit commits everything in the work tree and returns the commit, or ""
// if there is neither a change nor a commit that the steps made themselves.
func (a *Agent) commit(ctx context.Context, before, title string) (string, error) {
	if err := git(ctx, nil, "add", "-A"); err != nil {
		return "", err
	}
	if exec.CommandContext(ctx, "git", "diff", "--cached", "--quiet").Run() != nil {
		subject := strings.Join(strings.Fields(title), " ")
		if err := git(ctx, identity(ctx), "commit", "--quiet", "--message", subject); err != nil {
			return "", err
		}
	}
	if now := head(ctx); now != before {
		return now, nil
	}
	return "", nil
}

// identity returns the environment that lets git commit where nobody told it a name.
func identity(ctx context.Context) []string {
	for _, who := range []string{"GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"} {
		if exec.CommandContext(ctx, "git", "var", who).Run() != nil {
			return []string{
				"GIT_AUTHOR_NAME=ralph", "GIT_AUTHOR_EMAIL=ralph@localhost",
				"GIT_COMMITTER_NAME=ralph", "GIT_COMMITTER_EMAIL=ralph@localhost",
			}
		}
	}
	return nil
}

func git(ctx context.Context, env []string, args ...string) error {
	out, err := gitrepo.AtPipe(ctx, ".", func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Env = append(os.Environ(), env...)
		return cmd.CombinedOutput()
	})
	if err != nil {
		return &failure{strings.TrimSpace(fmt.Sprintf("git %s: %s\n%s", args[0], err, termsafe.Strip(string(out))))}
	}
	return nil
}
