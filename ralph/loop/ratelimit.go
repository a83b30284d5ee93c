package loop

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// The pauses of a rate limit whose end the agent does not name: they double
// from the first to the last.
const (
	firstLimitPause = time.Minute
	lastLimitPause  = 30 * time.Minute
	// limitMargin is added to a time that the agent names: clocks differ.
	limitMargin = 2 * time.Second
	// announceEvery is how often a wait that nobody watches is told of.
	announceEvery = 10 * time.Minute
)

// recogniseLimit finds a rate limit in a run that ended badly. One that was
// reported on the way and did not keep the agent from its work is none.
func (l *loop) recogniseLimit(it *iteration) {
	if it.end == endIdle && it.limit != nil {
		// It was silent because it waited for its limit to end.
		it.end = endItself
	}
	if it.noKey != "" || it.end != endItself || it.result != nil && !it.failed() {
		it.limit = nil
	}
	if it.noKey != "" || it.end != endItself || it.limit != nil || !it.failed() || l.LimitIn == nil {
		return
	}
	if limit, found := l.LimitIn(it.words(), time.Now()); found {
		it.limit = &limit
	}
}

// words is what a failed agent has said about its end. What else it has printed
// may quote anything, such as a test's output about rate limits; and one that was
// killed by a signal has said nothing about it.
func (o outcome) words() string {
	switch {
	case o.result != nil:
		return o.complaint + "\n" + o.result.Text
	case o.code > killedBySignal:
		return o.complaint
	}
	return o.complaint + "\n" + strings.Join(lastLines(o.tail, 2), "\n")
}

// killedBySignal is added to a signal's number to make an exit code.
const killedBySignal = 128

// waitOut waits until the limit is over. The run does not count.
func (l *loop) waitOut(ctx context.Context, limit event.RateLimit) (Stop, error) {
	if l.finishing {
		return Stopped, nil
	}
	l.limits++
	wait := min(firstLimitPause<<min(l.limits-1, 10), lastLimitPause)
	if named := time.Until(limit.Until); !limit.Until.IsZero() && (named > 0 || l.limits == 1) {
		wait = max(named, 0) + limitMargin // a time that is over is believed once
	}
	if most := l.Bounds.MaxWait; most > 0 && l.waited+wait > most {
		return RateLimited, hint.Wrap(fmt.Errorf("rate limit of agent %s lasts another %s, longer than max_wait (%s)%s",
			l.Agent.Name(), rough(wait), rough(most), quoted(limit.Text)), "start the loop again later, or raise max_wait")
	}
	if l.Bounds.MaxDuration > 0 && wait > l.timeLeft() {
		return MaxDuration, fmt.Errorf("rate limit of agent %s lasts another %s, longer than the %s left of max_duration",
			l.Agent.Name(), rough(wait), rough(max(0, l.timeLeft())))
	}
	l.waited += wait
	if l.countDown(ctx, wait, limit) {
		return l.left(), nil
	}
	return goOn, nil
}

// countDown shows how long is left. The end of the wait does not depend on the
// wall clock, which may be set meanwhile.
func (l *loop) countDown(ctx context.Context, wait time.Duration, limit event.RateLimit) (interrupted bool) {
	end := time.Now().Add(wait)
	l.printf("Rate limit of %s%s. Waiting %s, until %s.\n", l.Agent.Name(), quoted(limit.Text), rough(wait), end.Format("15:04:05"))
	if !l.Live {
		for left := wait; left > 0; left = time.Until(end) {
			if l.waitFor(ctx, min(left, announceEvery), func() bool { return false }) {
				return true
			}
			if left := time.Until(end); left > 0 {
				l.printf("Waiting for the rate limit to end: another %s.\n", rough(left))
			}
		}
		return false
	}
	for left := wait; left > 0; left = time.Until(end) {
		l.printf("\r\x1b[KAnother %s. Ctrl+C ends the loop.", rough(left))
		if l.waitFor(ctx, min(left, time.Second), func() bool { return false }) {
			return true
		}
	}
	l.printf("\r\x1b[K")
	return false
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", cut(text))
}

// rough is a duration for people: no fractions of a second, and of an hour no
// seconds.
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
