package notify

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// eventsMax bounds the notifications of a loop from its events, which an agent can cause: those of questions, and
// of all other events.
const eventsMax = 100

// Loop sends the notifications of one loop. A nil Loop sends nothing.
type Loop struct {
	sender *Sender
	base   Notification
	left   bool // its command on this machine has died

	mu     sync.Mutex
	closed bool
	sent   map[bool]int // by whether it is a question
	run    int
	end    *runlog.LoopEnd // nil before the end
}

// Follow sends notifications about a loop, as its events tell, until [Loop.Ended]. base has its sandbox, worktree
// and command.
func Follow(sender *Sender, base Notification) *Loop {
	if sender == nil {
		return nil
	}
	return &Loop{sender: sender, base: base, sent: map[bool]int{}}
}

// FollowLeft does the same for a loop whose command on this machine has died, until [Loop.Close]. Its end is
// what the loop says.
func FollowLeft(sender *Sender, base Notification) *Loop {
	l := Follow(sender, base)
	if l != nil {
		l.left = true
	}
	return l
}

// Event sends a notification for an event of the loop. It does not block.
func (l *Loop) Event(e runlog.Event) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.notify(e)
}

// Close starts the remaining deliveries.
func (l *Loop) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.sender.Close()
}

// Repaired reports that the sandbox was repaired while the loop used it.
func (l *Loop) Repaired(reason string) {
	if l == nil {
		return
	}
	n := l.base
	n.Event, n.Time, n.Reason = SandboxRepaired, time.Now().UTC(), termsafe.Line(reason)
	n.Text = fmt.Sprintf("Sandbox %s was repaired: %s", n.Sandbox, n.Reason)
	l.sender.Send(n)
}

// Ended sends how the loop ended, or that it continues without a connection: the exit
// code or error is the host's.
func (l *Loop) Ended(code int, err error) {
	if l == nil {
		return
	}
	defer l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
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

// notify sends a notification for an event that is worth one.
func (l *Loop) notify(e runlog.Event) {
	n := l.base
	n.Time, n.Run = e.Time, l.run
	switch d := e.Data.(type) {
	case *runlog.RunStart:
		l.run = d.N
		return
	case *runlog.LoopEnd:
		first := l.end == nil
		l.end = d
		if l.left && first {
			var err error
			if d.Error != "" {
				err = errors.New(d.Error)
			}
			l.sender.Send(l.ended(d.ExitCode, err))
		}
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
