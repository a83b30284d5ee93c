package loop

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// maxBroken is how many tasks in a row a check may be unable to check before the loop ends: the
// next task may repair it.
const maxBroken = 2

// brokenChecks are the checks that fail regardless of the tasks.
type brokenChecks struct {
	inRow int    // tasks that could not be checked
	fault string // of the last check
	same  int    // failures in a row that are those of the accepted commit
	// before has how each check ended on the accepted commit, by both.
	before map[[2]string]checked
}

// checked is how a check ended.
type checked struct{ how, output string }

func (l *loop) checkTimeout() time.Duration { return cmp.Or(l.Bounds.CheckTimeout, l.Timeout) }

func (l *loop) tookTooLong() string { return fmt.Sprintf("took longer than %s", l.checkTimeout()) }

// maxSame is how often a check fails the same way as before the tasks until that is its fault: a
// task may have to make it pass, and its next agent can.
const maxSame = 2

// checkFault returns what is wrong with a check that has failed, or "" if it may be the task: a
// check that does not end, or keeps failing as on the last accepted commit, is not the task's
// fault.
func (l *loop) checkFault(ctx context.Context, command, how, output string) string {
	if how == l.tookTooLong() {
		return fmt.Sprintf("the check %q %s", termsafe.Line(command), how)
	}
	if l.Clone == nil || l.accepted == "" {
		return ""
	}
	before, known := l.broken.before[[2]string{l.accepted, command}]
	if !known {
		l.printf("Checking whether it fails on commit %s as well.\n", short(l.accepted))
		before = l.checkAccepted(ctx, command)
		if l.broken.before == nil {
			l.broken.before = map[[2]string]checked{}
		}
		l.broken.before[[2]string{l.accepted, command}] = before
	}
	if before.how != how || before.output != withoutNoise(output, l.Dir) {
		return ""
	}
	if l.broken.same++; l.broken.same < maxSame {
		return ""
	}
	return fmt.Sprintf("the check %q fails the same way on commit %s, the last accepted one", termsafe.Line(command), short(l.accepted))
}

// checkAccepted runs a check in a copy of the accepted commit. It lacks ignored files, so the
// check may fail in another way.
func (l *loop) checkAccepted(ctx context.Context, command string) checked {
	dir, remove, err := l.Clone(ctx, l.accepted)
	if err != nil {
		l.warnOnce("clone", "checking commit %s: %s", short(l.accepted), err)
		return checked{}
	}
	defer remove()
	out := &checkOutput{}
	how, _, stop, err := l.runCheck(ctx, dir, command, out)
	l.interrupted = l.interrupted || stop != noStop // the loop ends before its next run
	if err != nil {
		return checked{}
	}
	return checked{how, withoutNoise(string(out.tail), dir)}
}

var number = lazyregexp.New(`[0-9]+`)

// withoutNoise returns the output of a check without what differs between two runs.
func withoutNoise(output, dir string) string {
	output = strings.TrimSpace(termsafe.Strip(strings.ToValidUTF8(output, "")))
	if dir != "" {
		output = strings.ReplaceAll(output, dir, ".")
	}
	return number().ReplaceAllString(output, "0")
}

// park has the user decide about the tasks that a broken check cannot check.
func (l *loop) park(ctx context.Context, it *iteration, fault string) error {
	l.broken.inRow++
	l.broken.fault = fault
	if it.class == classNone {
		it.class = classCheck
	}
	l.warnf("%s: not counted against %s", fault, cmp.Or(strings.Join(it.finished, ", "), "the run"))
	for _, slug := range it.finished {
		question := fmt.Sprintf("The task is finished, but %s. Is the check right?", fault)
		if err := l.Backlog.Park(ctx, slug, question, "fixed, check again", "the task must fix it"); err != nil {
			return fmt.Errorf("asking about task %s: %w", slug, err)
		}
	}
	it.finished, l.note = nil, ""
	return nil
}

// brokenCheck is the error of a loop that ends because of a check.
func (l *loop) brokenCheck() error {
	return hint.Wrap(fmt.Errorf("no task can be checked: %s", l.broken.fault),
		"fix it, or change commands or timeout under [checks]; then answer with %q", l.questionCommand("answer TASK ANSWER"))
}
