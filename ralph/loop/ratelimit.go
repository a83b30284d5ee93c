package loop

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// The pause for a rate limit of unknown duration doubles from the minimum to the
// maximum.
const (
	minLimitPause = time.Minute
	maxLimitPause = 30 * time.Minute
	// limitMargin compensates for clock differences.
	limitMargin = 2 * time.Second
	// announceInterval is how often the remaining time is printed without a screen.
	announceInterval = 10 * time.Minute
)

// detectLimit detects the rate limit that ended a failed run. One that the agent
// overcame is ignored. The steps of the shell agent may print anything.
func (l *loop) detectLimit(it *iteration) {
	if it.end == endIdle && it.limit != nil {
		it.end = endExited // silent because it waited for its limit
	}
	if it.noKey != "" || it.end != endExited || it.result != nil && !it.failed() {
		it.limit = nil
	}
	if it.noKey != "" || it.end != endExited || it.limit != nil || !it.failed() || l.Agent.Name() == agent.ShellName {
		return
	}
	if limit, found := stream.RateLimitIn(it.errorText(), time.Now()); found {
		it.limit = &limit
	}
}

// detectKeyError detects a missing or rejected key in a run that failed before the
// model responded.
func (l *loop) detectKeyError(it *iteration) {
	switch tokens := it.usage.Tokens; {
	case it.end == endKeyRefused:
		return
	case it.end != endExited || !it.failed() || tokens != nil && tokens.Total() > 0:
		it.noKey = ""
		return
	}
	if it.noKey != "" || len(agent.Keys(l.Agent.Name())) == 0 {
		return
	}
	it.noKey, _ = stream.KeyRefusedIn(it.errorText())
}

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

// waitOut waits for the end of the rate limit. The run does not count.
func (l *loop) waitOut(ctx context.Context, limit event.RateLimit) (Stop, error) {
	if l.finishing {
		return Stopped, nil
	}
	l.limits++
	wait := min(minLimitPause<<min(l.limits-1, 10), maxLimitPause)
	if named := time.Until(limit.Until); !limit.Until.IsZero() && (named > 0 || l.limits == 1) {
		wait = max(named, 0) + limitMargin // a time in the past is accepted once
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
		return l.waitStopped(), nil
	}
	return noStop, nil
}

// countDown waits and prints the remaining time. It is based on the monotonic clock.
func (l *loop) countDown(ctx context.Context, wait time.Duration, limit event.RateLimit) (interrupted bool) {
	end := time.Now().Add(wait)
	l.setState(runlog.StateRateLimited, end.UTC(), limit.Text)
	l.printf("Rate limit of %s%s. Waiting %s, until %s.\n", l.Agent.Name(), quoted(limit.Text), rough(wait), end.Format("15:04:05"))
	for left := wait; left > 0; left = time.Until(end) {
		if left < wait {
			l.print(l.plain, fmt.Sprintf("Waiting for the rate limit to end: another %s.\n", rough(left)))
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
