package notify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	// pollInterval is how often the log of a loop is read.
	pollInterval = time.Second
	// eventsMax bounds the notifications of a loop from its log, which an agent can write: those
	// of questions, and of all other events.
	eventsMax = 100
)

// Loop sends the notifications of one loop. A nil Loop sends nothing.
type Loop struct {
	sender *Sender
	base   Notification
	id     string    // of the dispatch
	since  time.Time // earlier events are of a loop that this one resumes

	log    *runlog.Reader // nil before it is found
	offset int64
	sent   map[bool]int // by whether it is a question
	run    int
	end    *runlog.LoopEnd // nil before the end

	stop    context.CancelFunc
	stopped chan struct{}
}

// Follow sends notifications about the loop of a dispatch until [Loop.Ended]. base has its
// sandbox, worktree and command.
func Follow(ctx context.Context, sender *Sender, base Notification, dispatch string) *Loop {
	if sender == nil {
		return nil
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Loop{sender: sender, base: base, id: dispatch, since: time.Now(), sent: map[bool]int{}, stop: stop, stopped: make(chan struct{})}
	go func() {
		defer close(l.stopped)
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.read()
			}
		}
	}()
	return l
}

// Repaired reports that the sandbox was repaired while the loop used it.
func (l *Loop) Repaired(reason string) {
	if l == nil {
		return
	}
	n := l.base
	n.Event, n.Time, n.Reason = SandboxRepaired, time.Now().UTC(), termsafe.Line(reason)
	n.Text = fmt.Sprintf("The sandbox %s was repaired: %s", n.Sandbox, n.Reason)
	l.sender.Send(n)
}

// Ended sends the rest, and how the loop ended, or that it continues without a connection: the exit
// code or error is the host's.
func (l *Loop) Ended(code int, err error) {
	if l == nil {
		return
	}
	l.stop()
	<-l.stopped
	l.read()
	if l.log != nil {
		l.log.Close()
	}
	switch {
	case errors.Is(err, lifecycle.ErrDetached): // it continues
	case errors.Is(err, lifecycle.ErrDisconnected):
		n := l.base
		n.Event, n.Time, n.Run, n.Reason = ConnectionLost, time.Now().UTC(), l.run, termsafe.Line(err.Error())
		n.Text = fmt.Sprintf("%s of %s:%s: %s", n.Command, n.Repo, n.Branch, n.Reason)
		l.sender.Send(n)
	default:
		l.sender.Send(l.ended(code, err))
	}
	l.sender.Close()
}

func (l *Loop) ended(code int, err error) Notification {
	n := l.base
	n.Event, n.Time, n.Run = LoopEnded, time.Now().UTC(), l.run
	n.End = &End{ExitCode: code}
	if err != nil {
		n.End.ExitCode, n.End.Error = max(code, 1), termsafe.Line(err.Error())
	}
	if e := l.end; e != nil {
		n.End.Stop, n.End.Summary = stopOf(n.End.ExitCode, e.Stop), summaryOf(e.Summary)
	}
	if code == wire.ExitUnmerged { // which the log does not say
		n.End.Stop = wire.StopUnmerged
	}
	how := strings.ReplaceAll(n.End.Stop, "_", " ")
	if how == "" {
		how = "exit code " + strconv.Itoa(n.End.ExitCode)
	}
	n.Text = fmt.Sprintf("%s of %s:%s ended: %s", n.Command, n.Repo, n.Branch, how)
	for _, more := range []string{n.End.Error, n.End.Summary} {
		if more != "" {
			n.Text += ". " + more
		}
	}
	return n
}

// read sends notifications for new events.
func (l *Loop) read() {
	if l.log == nil {
		log, err := runlog.Find(l.base.Worktree, func(found runlog.Loop) bool { return found.Dispatch == l.id })
		if err != nil {
			return // not begun
		}
		l.log = log
	}
	for {
		events, next, err := l.log.Events(l.offset)
		for _, e := range events {
			if !e.Time.Before(l.since) {
				l.notify(e)
			}
		}
		if err != nil || next == l.offset {
			return
		}
		l.offset = next
	}
}

func (l *Loop) notify(e runlog.Event) {
	n := l.base
	n.Time, n.Run = e.Time, l.run
	switch d := e.Data.(type) {
	case *runlog.RunStart:
		l.run = d.N
		return
	case *runlog.LoopEnd:
		l.end = d
		return
	case *runlog.TaskChange:
		if d.Status != "blocked" {
			return
		}
		n.Event, n.Task, n.Reason = TaskBlocked, &Task{termsafe.Line(d.ID), termsafe.Line(d.Title)}, termsafe.Line(d.Reason)
		n.Text = fmt.Sprintf("Task %s is blocked: %s", n.Task, n.Reason)
	case *runlog.Question:
		n.Event, n.Task = QuestionAsked, &Task{termsafe.Line(d.ID), termsafe.Line(d.Title)}
		n.Question = &Question{Text: d.Question, Options: d.Options, Default: d.Default}
		if !d.DefaultAt.IsZero() {
			n.Question.DefaultAt = &d.DefaultAt
		}
		n.Text = askedText(n.Task, d)
	case *runlog.LimitNear:
		n.Event, n.Limit = LimitNear, &Limit{termsafe.Line(d.Name), d.Used, d.Limit}
		n.Text = fmt.Sprintf("%s of %s:%s is near its limit: %s", n.Command, n.Repo, n.Branch, n.Limit)
	default:
		return
	}
	question := n.Event == QuestionAsked
	if l.sent[question]++; l.sent[question] > eventsMax {
		l.sender.fail(fmt.Errorf("limit of %d reached: only questions and the end of the loop are sent", eventsMax))
		return
	}
	l.sender.Send(n)
}

// String is the task in a text.
func (t *Task) String() string {
	if t.Title == "" {
		return t.ID
	}
	return fmt.Sprintf("%s (%s)", t.ID, t.Title)
}
