package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
)

// class is whose fault the end of a run is.
type class int

const (
	classNone    class = iota // nobody's, or the task's: the backlog has counted it
	classUser                 // a signal, or a limit of the user
	classWorld                // the model cannot be used now, or the agent's program crashed at its start
	classForGood              // the model cannot be used before a setting is changed
	classRun                  // the run: it failed, was silent, or took too long or too much
	classCheck                // the check: it fails regardless of the task
)

// consequence is what follows from a class.
type consequence struct {
	fails   bool // the run counts towards max_failures
	forgive bool // the failed attempt does not count against its task
	next    next
}

// next is what a loop does after a run.
type next int

const (
	proceed next = iota
	wait         // with growing pauses; the run is no iteration
	quit
)

// consequences decides what the end of a run means; nothing else counts failures. It is the
// table in docs/loops.md.
var consequences = map[class]consequence{
	classNone:    {},
	classUser:    {forgive: true},
	classWorld:   {forgive: true, next: wait},
	classForGood: {forgive: true, next: quit},
	classRun:     {fails: true},
	classCheck:   {forgive: true},
}

func (it *iteration) consequence() consequence { return consequences[it.class] }

// classify decides whose fault the end of a run is, before its tasks are released.
func (l *loop) classify(ctx context.Context, it *iteration) {
	switch it.class, it.message = l.classOf(ctx, it); {
	case it.class == classNone && it.failed():
		it.class = classRun
	case it.class == classNone:
		l.answered = true
	}
}

func (l *loop) classOf(ctx context.Context, it *iteration) (class, stream.Message) {
	switch it.end {
	case endInterrupted, endOverTime, endOverCost, endOverTokens:
		return classUser, stream.Message{}
	case endKeyRefused:
		return classForGood, it.noKey
	case endIdle, endTimedOut: // silent because it waits for its limit, or for an answer
		switch {
		case it.limit.Fault != stream.NoFault:
			return classWorld, it.limit
		case it.asking:
			return classWorld, unavailable(cmp.Or(it.retry, "no answer from the model"))
		}
		return classRun, stream.Message{}
	case endExited, endDone:
		if it.denied.All {
			return classForGood, stream.Message{Fault: stream.Denied}.WithText(it.denied.Text)
		}
		return l.classOfExit(ctx, it)
	}
	return classNone, stream.Message{}
}

// classOfExit classifies a run whose agent has exited. The steps of the shell agent may print
// anything.
func (l *loop) classOfExit(ctx context.Context, it *iteration) (class, stream.Message) {
	if pending := it.limit.Fault != stream.NoFault && it.result == nil; !it.exitFailed() && !pending {
		if it.apiError = it.hiddenError(); it.apiError == "" {
			return classNone, stream.Message{}
		}
	}
	if l.Agent.Name() == agent.ShellName {
		return classNone, stream.Message{}
	}
	responded := it.usage.Tokens != nil && it.usage.Tokens.Total() > 0
	if it.noKey.Fault != stream.NoFault && !responded {
		return classForGood, it.noKey
	}
	said := it.limit
	if said.Fault == stream.NoFault {
		said = stream.FaultIn(it.errorText(), time.Now())
		if len(agent.Keys(l.Agent.Name())) == 0 && !said.AboutModel() {
			said = stream.Message{} // a custom agent may print errors of other programs last
		}
	}
	switch said.Fault {
	case stream.RateLimited, stream.Unavailable:
		return classWorld, said
	case stream.UnknownHost:
		if l.answered || responded { // it had resolved before
			return classWorld, said
		}
		return classForGood, said
	case stream.Unpaid:
		return classForGood, said
	case stream.KeyRefused, stream.UnknownModel, stream.UnknownEndpoint:
		if !responded || it.result != nil || stream.APIErrorIn(said.Text) != "" {
			return classForGood, said // the agent reports it, not a program that it ran
		}
	case stream.PromptTooLong: // or only the rest of it, after a response
		if !responded {
			return classForGood, said
		}
	case stream.NoFault:
		if it.crashed() && !responded && !l.worked(ctx, it) {
			return classWorld, stream.Message{Fault: stream.Crashed}.WithText(fmt.Sprintf("crashed at its start (exit code %d)", it.code))
		}
	}
	return classNone, stream.Message{}
}

// hiddenError returns the error about the model with which an agent ended that reports success.
func (o outcome) hiddenError() string {
	if o.result != nil {
		return stream.APIErrorIn(firstLine(o.result.Text))
	}
	return stream.APIErrorIn(lastLine(o.tail))
}

// crashed reports whether a signal ended the agent that programs send to themselves.
func (o outcome) crashed() bool {
	const sigill, sigtrap, sigabrt, sigbus, sigfpe, sigsegv = 4, 5, 6, 7, 8, 11
	return o.result == nil && o.cause == nil && slices.Contains([]int{sigill, sigtrap, sigabrt, sigbus, sigfpe, sigsegv}, o.code-128)
}

// worked reports whether a run has claimed a task or committed.
func (l *loop) worked(ctx context.Context, it *iteration) bool {
	if l.Head(ctx) != it.before.head {
		return true
	}
	if l.Backlog == nil || l.AgentID == "" {
		return false
	}
	held, err := l.Backlog.Held(ctx, l.AgentID)
	return err != nil || len(held) > 0
}

func unavailable(text string) stream.Message {
	return stream.Message{Fault: stream.Unavailable}.WithText(text)
}
