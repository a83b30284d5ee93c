package loop

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// The pause for a rate limit or an outage of unknown duration doubles from the minimum to the
// maximum.
const (
	minLimitPause = time.Minute
	maxLimitPause = 30 * time.Minute
	// limitMargin compensates for clock differences.
	limitMargin = 2 * time.Second
	// announceInterval is how often the remaining time is printed without a screen.
	announceInterval = 10 * time.Minute
)

// errorText returns what a failed agent printed about its failure. Other output may
// quote anything, e.g. a test about rate limits. An agent killed by a signal has not
// reported its failure.
func (o outcome) errorText() string {
	switch {
	case o.result != nil:
		return o.complaint + "\n" + o.result.Text
	case o.code > 128: // plus the signal number
		return o.complaint
	}
	return o.complaint + "\n" + strings.Join(lastLines(o.tail, 2), "\n")
}

// waitOut waits until the model can be used again. The run does not count.
func (l *loop) waitOut(ctx context.Context, why stream.Message) (Stop, error) {
	if l.finishing {
		return Stopped, nil
	}
	l.waits++
	first := minLimitPause
	if why.Fault != stream.RateLimited {
		first = l.timing.outage // most outages are short
	}
	pause := min(first<<min(l.waits-1, 10), maxLimitPause)
	if named := time.Until(why.Until); !why.Until.IsZero() && (named > 0 || l.waits == 1) {
		pause = max(named, 0) + limitMargin // a time in the past is accepted once
	}
	if most := l.Bounds.MaxWait; most > 0 && l.waited+pause > most {
		return waitStop(why), hint.Wrap(fmt.Errorf("%s, longer than max_wait (%s)%s", l.lasts(why, pause), rough(most), quoted(why.Text)),
			"start the loop again later, or raise max_wait")
	}
	if l.Bounds.MaxDuration > 0 && pause > l.timeLeft() {
		return MaxDuration, fmt.Errorf("%s, longer than the %s left of max_duration%s", l.lasts(why, pause), rough(max(0, l.timeLeft())), quoted(why.Text))
	}
	l.waited += pause
	if l.countDown(ctx, pause, why) {
		return l.waitStopped(), nil
	}
	return noStop, nil
}

// waitStop is the reason to stop when a wait would exceed max_wait.
func waitStop(why stream.Message) Stop {
	if why.Fault == stream.RateLimited {
		return RateLimited
	}
	return Unavailable
}

// lasts begins the error about a wait that is too long.
func (l *loop) lasts(why stream.Message, pause time.Duration) string {
	if why.Fault == stream.RateLimited {
		return fmt.Sprintf("rate limit of agent %s lasts another %s", l.Agent.Name(), rough(pause))
	}
	return fmt.Sprintf("%s: waited %s, and the next pause is %s", l.subject(why), rough(l.waited), rough(pause))
}

// subject says what the loop waits for.
func (l *loop) subject(why stream.Message) string {
	switch why.Fault {
	case stream.RateLimited:
		return "Rate limit of " + l.Agent.Name()
	case stream.Crashed:
		return "agent " + l.Agent.Name() + " does not start"
	}
	return "the model of agent " + l.Agent.Name() + " is not available"
}

// countDown waits and prints the remaining time. It is based on the monotonic clock.
func (l *loop) countDown(ctx context.Context, wait time.Duration, why stream.Message) (interrupted bool) {
	end := time.Now().Add(wait)
	state, again := runlog.StateRateLimited, "Waiting for the rate limit to end"
	if why.Fault != stream.RateLimited {
		state, again = runlog.StateRetrying, "Waiting for the model"
	}
	l.setState(state, end.UTC(), why.Text)
	subject := l.subject(why)
	l.printf("%s%s%s. Waiting %s, until %s.\n", strings.ToUpper(subject[:1]), subject[1:], quoted(why.Text), rough(wait), end.Format("15:04:05"))
	for left := wait; left > 0; left = time.Until(end) {
		if left < wait {
			l.print(l.plain, fmt.Sprintf("%s: another %s.\n", again, rough(left)))
		}
		if l.waitFor(ctx, min(left, announceInterval), func() bool { return false }) {
			return true
		}
	}
	return false
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", cut(text))
}

// rough formats a duration without fractions of a second or, from an hour, seconds.
func rough(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
}
