package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/ralph/amend"
	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Reasons recorded in the backlog for unfinished tasks.
const (
	reasonCrashed     = "session exited without completing task"
	reasonInterrupted = "session interrupted"
	reasonTimedOut    = "session exceeded its time limit"
	reasonIdle        = "session was silent for too long"
	reasonLimited     = "session ran into a rate limit"
	reasonUnavailable = "the model was not available"
	reasonUnusable    = "the model cannot be used"
	reasonBound       = "the loop reached a limit"
	reasonProcesses   = "session used up the process limit"
	reasonKey         = "the model's endpoint rejected the agent's key"
)

// OutcomeFailed is recorded for a failed run.
const OutcomeFailed = "failed"

// Outcomes of an iteration.
const (
	outcomeDone        = "done"
	outcomeReleased    = "released"
	outcomeUnchecked   = "checks failed"
	outcomeRefused     = "refused" // by the host, or outside of the branch
	outcomeNothing     = "no task"
	outcomeEnded       = "ended" // nothing more is known
	outcomeFailed      = OutcomeFailed
	outcomeLimited     = "rate limited"
	outcomeUnavailable = "model unavailable"
	outcomeInterrupted = "interrupted"
	outcomeTimedOut    = "timed out"
	outcomeIdle        = "silent"
	outcomeLimit       = "limit reached"
	outcomeOvertaken   = "overtaken"
	outcomeQuestion    = "question"
)

// iteration is one run of the agent with its results.
type iteration struct {
	outcome
	n             int
	class         class
	message       stream.Message // about the model, if that is why the run ended
	before, after snapshot
	started       time.Time
	released      []string // tasks that the agent still held
	failedByAgent []string // tasks that it failed itself
	finished      []string // tasks that count as done
	asked         []string // tasks that wait for an answer
	reopened      []string // finished tasks of a run that was rejected
	rejected      string   // why it was, after its end
	blameless     bool     // nothing in the run is to blame for that
	verdict       session.Verdict
	noGit         error  // git does not work in the worktree
	head          string // at its end
	id            attemptref.ID
	attempt       string // ref of what it has left
	settled       bool   // see loop.settle
	checks        []runlog.Check
	refused       []denylog.Refusal
	checkRefused  []denylog.Refusal // during its last check, also in refused
	aside         attempt.Saved     // what it did not commit
	leftOut       amend.LeftOut     // what its commits do not have
	incomplete    bool              // a task is open again for that, or because it has broken git
	offBranch     []string          // its commits that the branch lacks, if it was rejected for them
	cutShort      bool              // an interrupt kept the checks from ending

	findOffBranch func(ctx context.Context, named []string) ([]string, error) // nil if unknown
}

// iterate performs one run and returns the reason to stop, if any.
func (l *loop) iterate(ctx context.Context, before snapshot) (snapshot, Stop, error) {
	n := len(l.Earlier) + len(l.iterations) + 1
	if l.Log != nil {
		l.Log.Begin(n)
	}
	it := &iteration{n: n, before: before, started: time.Now()}
	err := l.beginRun(ctx)
	if head := l.Head(ctx); head != before.head && before.head == l.accepted { // the host has brought the user's commits
		before.head, it.before.head, l.accepted = head, head, head
	}
	if err == nil {
		l.logRun(n, before.head)
		err = l.flush(ctx) // a run counts that is lost with the sandbox
	}
	if err != nil {
		stop, err := l.withoutHost(err)
		return before, stop, err
	}
	l.recordUncommitted(ctx)
	removeLeftOut := l.recordCommits(ctx)
	it.findOffBranch = l.recordBranches(ctx)
	if l.Attempts != nil {
		l.attempts = l.Attempts.List(ctx)
	}
	cleanTemp := l.recordTemp()
	defer cleanTemp() // of the checks
	it.outcome, err = l.run(ctx, n)
	l.freshLine()
	it.noGit = l.restoreBranch(ctx)
	err = errors.Join(err, l.checkOvertaken(ctx, it))
	l.classify(ctx, it)
	l.collectDenied(ctx, it)
	l.leaveOut(ctx, it, removeLeftOut)
	l.release(ctx, it)
	err = errors.Join(err, l.reopenLeftOut(ctx, it))
	l.setAside(ctx, it)
	cleanTemp()
	stop, failed := l.check(ctx, n, it)
	if stop == noStop && failed == nil {
		stop, failed = l.endRun(ctx, it)
	}
	l.settle(ctx, it)
	l.forgive(ctx, it)
	failed = errors.Join(failed, l.askAboutBlocked(ctx, it))
	defaulted := l.applyDefaults(ctx)
	it.after = l.observeAfter(ctx, before)
	it.asked = before.asked(it.after)
	l.warnUncommitted(ctx, it)
	l.record(ctx, it)
	l.logTasks(before, it.after)
	l.saveNow(true)
	l.reportQuestions(it)
	l.reportDefaults(defaulted)
	if err = errors.Join(err, failed); err == nil {
		err = l.lostHost
	}
	if err == nil {
		err = l.flush(ctx)
	}
	if err != nil {
		stop, err = l.withoutHost(err)
		return it.after, stop, errors.Join(it.noGit, err)
	}
	if it.noGit != nil && it.end != endInterrupted {
		return it.after, NoGit, it.noGit
	}
	if stop != noStop {
		return it.after, stop, nil
	}
	stop, err = l.evaluate(ctx, it)
	return it.after, stop, err
}

// evaluate updates the counters after a run and returns the reason to stop, if any.
func (l *loop) evaluate(ctx context.Context, it *iteration) (Stop, error) {
	defer l.countBlocked(it)
	switch it.end {
	case endInterrupted:
		return Interrupted, nil
	case endOverTime:
		return MaxDuration, l.overTime()
	}
	switch it.consequence().next {
	case quit:
		return Failed, agent.ModelError(l.Agent.Name(), it.message.Fault, cut(it.message.Text), l.Session.Getenv)
	case wait:
		return l.waitOut(ctx, it.message)
	}
	l.waits, l.waited = 0, 0
	if l.broken.inRow >= maxBroken {
		return BrokenCheck, l.brokenCheck()
	}
	l.warnUnbounded(it.outcome)
	l.warnDenied(it.outcome)
	l.countFailure(it)
	l.countStall(it)
	l.setPause(it)
	return noStop, nil // cost and tokens are checked before the next run
}

// release fails the tasks that the agent still holds.
func (l *loop) release(ctx context.Context, it *iteration) {
	if l.Backlog == nil || l.AgentID == "" {
		return
	}
	slugs, err := l.Backlog.Held(ctx, l.AgentID)
	if err != nil {
		l.warnf("the tasks of agent %s cannot be released; their leases will expire: %s", l.AgentID, err)
	}
	for _, slug := range slugs {
		if err := l.Backlog.Release(ctx, l.AgentID, slug, strings.TrimSuffix(it.releaseReason()+"\n"+l.leftOutReason(it, slug), "\n")); err != nil {
			l.warnf("task %s cannot be released; its lease will expire: %s", slug, err)
			continue
		}
		it.released = append(it.released, slug)
		l.printf("failed %s\n", termsafe.Strip(slug))
	}
}

func (it *iteration) releaseReason() string {
	switch {
	case it.message.Fault != stream.NoFault:
		return reasonOf(it.message)
	case it.end == endProcesses:
		return reasonProcesses
	case it.end == endInterrupted:
		return reasonInterrupted
	case it.end == endTimedOut:
		return reasonTimedOut
	case it.end == endIdle:
		return reasonIdle
	case it.end == endOverTime, it.end == endOverCost, it.end == endOverTokens:
		return reasonBound
	case it.failed():
		return blockedHosts(it.refused) + reasonCrashed + ": " + it.describe()
	case it.cause != nil:
		return blockedHosts(it.refused) + reasonCrashed + ": " + it.cause.reason
	default:
		return blockedHosts(it.refused) + reasonCrashed
	}
}

// reasonOf is recorded for a task whose run ended because of the model.
func reasonOf(m stream.Message) string {
	reason := reasonUnusable
	switch m.Fault {
	case stream.KeyRefused:
		reason = reasonKey
	case stream.RateLimited:
		reason = reasonLimited
	case stream.Unavailable, stream.UnknownHost:
		reason = reasonUnavailable
	case stream.Crashed:
		reason = reasonCrashed
	}
	return strings.TrimSuffix(reason+": "+cut(m.Text), ": ")
}

// entry returns what the log has about a run.
func (l *loop) entry(it *iteration) runlog.Iteration {
	used := it.known()
	return runlog.Iteration{
		N: it.n, Tasks: it.tasks(), Done: it.finished, Asked: it.asked, Outcome: it.name(l.Session.Mode == agent.Plan), Started: it.started.UTC(),
		Seconds: time.Since(it.started).Seconds(), ExitCode: it.code,
		Tokens: used.Tokens, CostUSD: used.CostUSD, CostEstimated: it.estimated(), Refused: it.refused,
		Model: cmp.Or(it.model, it.mainModel(), l.Agent.Model(l.Session)), Checks: it.checks, Retries: it.retries,
		Denied: it.denied.Calls, HookErrors: len(it.hooks), Planned: l.planned(it),
		Attempt: it.attempt,
	}
}

// record logs the run and prints its line.
func (l *loop) record(ctx context.Context, it *iteration) {
	entry := l.entry(it)
	switch {
	case len(it.lost) > 0:
		entry.Reason = it.overtaken()
	case it.message.Fault == stream.KeyRefused:
		entry.Reason = "key rejected: " + cut(it.message.Text)
	case it.message.Fault != stream.NoFault:
		entry.Reason = cut(it.message.Text)
	case it.failed() && it.class != classUser:
		entry.Reason = it.describe()
	case it.rejected != "" && len(it.reopened) == 0:
		entry.Reason = termsafe.Line(brief(it.rejected))
	case slices.Contains([]string{outcomeReleased, outcomeUnchecked, outcomeRefused}, entry.Outcome), it.incomplete:
		entry.Reason = it.taskReason()
	}
	if it.after.head != it.before.head && len(it.lost) == 0 {
		entry.Commit = it.after.head
		entry.Commits = l.Count(ctx, it.before.head, it.after.head)
	}
	l.iterations = append(l.iterations, entry)
	for _, slug := range entry.Tasks {
		l.attempted[slug] = true
	}
	l.totals.add(entry)
	l.addUnreported(it.outcome)
	l.events.now.Run = runlog.Usage(it.known())
	l.events.now.Loop = l.usage(runlog.Usage{})
	l.logBounds(event.Usage{})
	l.printReceipt(entry)
	if l.Log == nil {
		return
	}
	if err := l.Log.Append(entry); err != nil {
		l.warnOnce("log", "%s; continuing without that log", err)
	}
}

func (it *iteration) tasks() []string {
	all := slices.Concat(it.finished, it.asked, it.reopened, it.released, it.failedByAgent, it.lost)
	slices.Sort(all)
	return append([]string{}, slices.Compact(all)...) // never null in JSON
}

// name returns the outcome.
func (it *iteration) name(planning bool) string {
	switch {
	case it.end == endInterrupted, it.cutShort:
		return outcomeInterrupted
	case len(it.lost) > 0:
		return outcomeOvertaken
	case it.class == classWorld && it.message.Fault == stream.RateLimited:
		return outcomeLimited
	case it.class == classWorld:
		return outcomeUnavailable
	case it.end == endTimedOut:
		return outcomeTimedOut
	case it.end == endIdle:
		return outcomeIdle
	case it.end == endOverTime, it.end == endOverCost, it.end == endOverTokens:
		return outcomeLimit
	case it.incomplete:
		return outcomeFailed
	case it.verdict.Refused != "", len(it.offBranch) > 0:
		return outcomeRefused
	case it.blameless:
		return outcomeReleased
	case it.rejected != "":
		return outcomeUnchecked
	case len(it.finished) > 0 && len(it.released)+len(it.asked) == 0:
		return outcomeDone
	case it.failed():
		return outcomeFailed
	case len(it.asked) > 0 && len(it.released) == 0:
		return outcomeQuestion
	case len(it.released)+len(it.failedByAgent) > 0:
		return outcomeReleased
	case it.after.tasks == nil || planning:
		return outcomeEnded
	default:
		return outcomeNothing
	}
}

// failed reports whether the run failed. An agent that reported its result and did not
// exit has not.
func (o outcome) failed() bool {
	return len(o.lost) > 0 || o.exitFailed() || o.apiError != "" || o.denied.All
}

// exitFailed reports whether the agent reported a failure.
func (o outcome) exitFailed() bool {
	return o.end != endDone && o.code != 0 || o.result != nil && o.result.Failed
}

// describe returns how a failed run ended, e.g. "exited with code 1".
func (o outcome) describe() string {
	if len(o.lost) > 0 {
		return "was overtaken: " + o.overtaken()
	}
	what := fmt.Sprintf("exited with code %d", o.code)
	if o.end != endExited && o.end != endDone {
		what = "was stopped"
	}
	if o.cause != nil {
		return what + ": " + o.cause.reason
	}
	var text string
	if o.result != nil {
		text = o.result.Text
		if o.code == 0 {
			what = "reported an error"
		}
	}
	if o.apiError != "" {
		what = "reported an error"
	}
	for _, message := range []string{o.apiError, o.complaint, text, lastLine(o.tail)} {
		if message = strings.TrimSpace(message); message != "" {
			return what + ": " + brief(message)
		}
	}
	return what
}
