package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
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
	before map[[2]string]failedCheck
}

// failedCheck is how a check has failed.
type failedCheck struct {
	how    string // empty if it has passed, or could not be run
	output string // its end
}

// equal reports whether two checks have failed the same way. The exit code does not suffice: where the
// first tasks create what is checked, it is the same for any failure.
func (c failedCheck) equal(other failedCheck) bool {
	return c.how == other.how && withoutNoise(c.output) == withoutNoise(other.output)
}

func (l *loop) checkTimeout() time.Duration { return cmp.Or(l.Bounds.CheckTimeout, l.Timeout) }

func (l *loop) tookTooLong() string { return fmt.Sprintf("took longer than %s", l.checkTimeout()) }

// maxSame is how often a check fails the same way as before the tasks until that is its fault: a
// task may have to make it pass, and its next agent can.
const maxSame = 2

// checkFault returns what is wrong with a check that has failed, or "" if it may be the task: a
// check that does not end, or keeps failing as on the last accepted commit, is not the task's
// fault, unless the user has said so.
func (l *loop) checkFault(ctx context.Context, it *iteration, command string, failed failedCheck) string {
	check := fmt.Sprintf("the check %q ", termsafe.Line(command))
	fault := check + failed.how
	tooLong := failed.how == l.tookTooLong()
	if !tooLong {
		why := strings.TrimPrefix(failed.how, "failed with ")
		if last := lastLine(termsafe.Strip(strings.ToValidUTF8(failed.output, ""))); last != "" {
			why += ": " + cut(termsafe.Line(last))
		}
		fault = fmt.Sprintf("%sfails the same way on commit %s, the last accepted one (%s)", check, short(l.accepted), why)
	}
	switch {
	case l.mustFix(check, fault):
		return ""
	case tooLong:
		return fault
	case !l.failsOnAccepted(ctx, it, command, failed):
		return ""
	}
	if l.broken.same++; l.broken.same < maxSame {
		return ""
	}
	return fault
}

// checkAnswers are the answers that are suggested for a check that is at fault. After the first one, the
// user is asked again.
var checkAnswers = []string{"fixed, check again", "the task must fix it"}

func checkQuestion(fault string) string {
	return fmt.Sprintf("The task is finished, but %s. Is the check right?", fault)
}

// mustFix reports whether the user has answered for any task that tasks must fix this fault of a check.
func (l *loop) mustFix(check, fault string) bool {
	question := withoutNoise(checkQuestion(fault))
	for _, task := range l.last.tasks {
		for _, q := range task.Answered {
			asked := taskjson.Question{Options: checkAnswers}
			if strings.Contains(q.Text, check) && withoutNoise(q.Text) == question && asked.Choose(q.Answer) != checkAnswers[0] {
				return true
			}
		}
	}
	return false
}

// failsOnAccepted reports whether a check fails the same way on the accepted commit. That is run
// where the check has failed, with the same ignored files: without them, it could fail for another
// reason. So the branch is reset first, which follows a failed check anyway. It is unknown, hence
// false, if the loop must not do that.
func (l *loop) failsOnAccepted(ctx context.Context, it *iteration, command string, failed failedCheck) bool {
	if l.Reset == nil || l.accepted == "" || l.otherSession() != "" {
		return false
	}
	if l.settle(ctx, it); it.noGit != nil || l.Head(ctx) != l.accepted {
		return false
	}
	key := [2]string{l.accepted, command}
	before, known := l.broken.before[key]
	if !known {
		l.printf("Checking whether it fails on commit %s as well.\n", short(l.accepted))
		before = l.checkAccepted(ctx, command)
		if l.broken.before == nil {
			l.broken.before = map[[2]string]failedCheck{}
		}
		l.broken.before[key] = before
	}
	return before.equal(failed)
}

// checkAccepted runs a check on the accepted commit, which is checked out.
func (l *loop) checkAccepted(ctx context.Context, command string) failedCheck {
	out := &checkOutput{}
	how, _, stop, err := l.runCheck(ctx, command, out)
	l.interrupted = l.interrupted || stop != noStop // the loop ends before its next run
	if err != nil {
		return failedCheck{}
	}
	return failedCheck{how, string(out.tail)}
}

// noise is what differs between two runs of a check: temporary files, and words with a digit, such as
// random names, IDs, addresses, times, and durations with their unit.
var noise = lazyregexp.New(`(/tmp|/var/tmp|/dev/shm)/[^\s"'` + "`" + `:,;()]*|[\w-]*[0-9][\w.:-]*( ?([nµm]?s|seconds?)\b)?`)

// comparedLines is how many lines of output are compared at most, so that they are in each tail.
const comparedLines = 500

// withoutNoise returns the last lines of a check's output, in any order, without noise.
func withoutNoise(output string) string {
	output = noise().ReplaceAllString(strings.TrimSpace(termsafe.Strip(strings.ToValidUTF8(output, ""))), "0")
	lines := strings.Split(output, "\n")
	lines = lines[max(0, len(lines)-comparedLines):]
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
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
		if err := l.Backlog.Park(ctx, slug, checkQuestion(fault), checkAnswers...); err != nil {
			return fmt.Errorf("asking about task %s: %w", slug, err)
		}
	}
	it.finished, it.rejected, l.note, l.unassigned.reason = nil, "", "", ""
	return nil
}

// brokenCheck is the error of a loop that ends because of a check.
func (l *loop) brokenCheck() error {
	return hint.Wrap(fmt.Errorf("no task can be checked: %s", l.broken.fault),
		"fix it, or change commands or timeout under [checks]; then answer with %q", l.questionCommand("answer TASK ANSWER"))
}
