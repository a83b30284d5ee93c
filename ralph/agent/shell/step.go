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
	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/ralph/amend"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	// grace is how long background processes may keep a step's output open.
	grace = 500 * time.Millisecond
	// maxTail limits the output in the backlog, in bytes.
	maxTail = 2000
	// maxPending limits an incomplete output line, in bytes.
	maxPending = 32 << 10
)

func byRetries(tasks []backlog.Task) []backlog.Task {
	return slices.SortedStableFunc(slices.Values(tasks), func(x, y backlog.Task) int {
		return cmp.Compare(x.RetryCount, y.RetryCount)
	})
}

// runStep runs a step and shows its output line by line. The terminal interrupts the step
// itself.
func (a *Agent) runStep(ctx context.Context, number int, step string) error {
	out := &output{show: a.out.Text}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", step)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = grace
	err := cmd.Run()
	out.flush()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrWaitDelay): // a background process is running
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
		return &failure{fmt.Sprintf("step %d cannot execute: %s", number, err)}
	}
	return out.err
}

// output shows a step's output and collects its end.
type output struct {
	show    func(string) error
	pending []byte // incomplete line
	tail    []byte
	err     error // the first one of show
}

func (o *output) Write(p []byte) (int, error) {
	o.tail = append(o.tail, p...)
	if n := len(o.tail) - maxTail - 1; n > 0 {
		o.tail = slices.Delete(o.tail, 0, n)
	}
	o.pending = append(o.pending, p...)
	end := bytes.LastIndexByte(o.pending, '\n') + 1
	if end == 0 && len(o.pending) > maxPending {
		end = len(o.pending)
	}
	o.emit(end)
	// A closed output must not fail the step.
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

// last returns the end of the output, sanitized.
func (o *output) last() string {
	return strings.TrimSpace(termsafe.Strip(strings.ToValidUTF8(termsafe.Tail(string(o.tail), maxTail), "")))
}

// head returns the current commit, or "" if there is none.
func head(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// commit commits all changes. It returns the current commit, or "" if it is unchanged.
func (a *Agent) commit(ctx context.Context, before, title string) (string, error) {
	if err := git(ctx, []string{"LC_ALL=C"}, "add", "-A"); err != nil {
		if m := withoutCommit().FindStringSubmatch(err.Error()); m != nil {
			err = &failure{amend.File{Path: m[1]}.Reason()}
		}
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

// withoutCommit finds the repository in a subdirectory that git add cannot add.
var withoutCommit = lazyregexp.New(`(?m)^error: '(.+)/' does not have a commit checked out$`)

// identity returns variables for git to commit without a configured identity.
func identity(ctx context.Context) []string {
	for _, ident := range []string{"GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"} {
		if exec.CommandContext(ctx, "git", "var", ident).Run() != nil {
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
