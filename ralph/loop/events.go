package loop

import (
	"maps"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	// nowInterval is the shortest interval between two writes of the same state.
	nowInterval = time.Second
	// usageInterval is the shortest interval between two events about usage.
	usageInterval = 5 * time.Second
	// boundNear is the used part of a bound that is reported.
	boundNear = 0.8
)

// events is what the loop's log knows about the loop.
type events struct {
	now   runlog.Now
	saved time.Time // the last write of now
	usage time.Time // the last event about usage
	near  map[string]bool
}

// emit logs an event for the host.
func (l *loop) emit(data runlog.Data) {
	if l.Log == nil {
		return
	}
	if err := l.Log.Emit(data); err != nil {
		l.warnOnce("events", "%s; other commands may not show it", err)
	}
}

// saveNow shows the current state, and logs it for the host. Unless the state has changed, it does so
// once per nowInterval.
func (l *loop) saveNow(changed bool) {
	l.Screen.SetNow(l.events.now)
	if l.Log == nil || !changed && time.Since(l.events.saved) < nowInterval {
		return
	}
	l.events.saved = time.Now()
	if err := l.Log.SetNow(l.events.now); err != nil {
		l.warnOnce("now", "%s; other commands do not show it", err)
	}
}

// logStart logs the start of the loop, once.
func (l *loop) logStart() {
	now := &l.events.now
	if now.State != "" {
		return
	}
	now.N = len(l.Earlier)
	now.Limits = runlog.Limits{
		MaxIterations: l.MaxIterations, MaxCostUSD: l.Bounds.MaxCostUSD, MaxTokens: l.Bounds.MaxTokens,
		MaxDurationSecs: l.Bounds.MaxDuration.Seconds(),
	}
	now.Loop = l.usage(runlog.Usage{})
	if l.Log == nil {
		return
	}
	if l.Resumed != "" {
		l.emit(&runlog.LoopResume{Reason: termsafe.Line(l.Resumed), Limits: now.Limits, Tasks: now.Counts})
	} else {
		about := l.Log.Loop
		l.emit(&runlog.LoopStart{Mode: about.Mode, Agent: about.Agent, Branch: about.Branch, Limits: now.Limits, Tasks: now.Counts})
	}
	l.setState(runlog.StateWorking, time.Time{}, "")
}

// setState logs a change of the loop's state.
func (l *loop) setState(state runlog.LoopState, until time.Time, text string) {
	now, text := &l.events.now, termsafe.Line(text)
	if now.State == state && now.Until.Equal(until) && now.Text == text {
		return
	}
	now.State, now.Since, now.Until, now.Text = state, time.Now().UTC(), until, text
	l.emit(&runlog.State{N: now.N, State: state, Until: until, Text: text})
	l.saveNow(true)
}

// logRun logs the start of run n.
func (l *loop) logRun(n int, commit string) {
	now := &l.events.now
	now.N, now.Tasks, now.Title, now.Started, now.Run = n, nil, "", time.Now().UTC(), runlog.Usage{}
	l.events.usage = time.Now()
	l.emit(&runlog.RunStart{N: n, Commit: commit})
	if l.Screen != nil {
		l.printLive(l.Screen.Heading(n))
	}
	l.setState(runlog.StateWorking, time.Time{}, "")
	l.saveNow(true)
}

// logOutput logs what a piece of the agent's output reports about the run.
func (l *loop) logOutput(events []event.Event, usage event.Usage) {
	now := &l.events.now
	now.LastOutput = time.Now().UTC()
	for _, e := range events {
		switch e := e.(type) {
		case event.Retry:
			l.setState(runlog.StateRetrying, time.Time{}, e.Text)
		case event.RateLimit:
			l.setState(runlog.StateRateLimited, e.Until, e.Text)
		case event.Text, event.Tool:
			l.setState(runlog.StateWorking, time.Time{}, "")
		case event.Usage:
			l.logUsage(usage)
		}
	}
	l.saveNow(false)
}

// logUsage logs the usage of the current run.
func (l *loop) logUsage(usage event.Usage) {
	now := &l.events.now
	now.Run = runlog.Usage(usage)
	now.Loop = l.usage(now.Run)
	l.logBounds(usage)
	if time.Since(l.events.usage) < usageInterval {
		return
	}
	l.events.usage = time.Now()
	l.emit(&runlog.UsageSoFar{N: now.N, Usage: now.Run})
}

// usage returns the usage of the loop, including that of the unfinished run.
func (l *loop) usage(run runlog.Usage) (sum runlog.Usage) {
	add := func(tokens *event.Tokens, cost *float64) {
		if tokens != nil {
			if sum.Tokens == nil {
				sum.Tokens = &event.Tokens{}
			}
			*sum.Tokens = sum.Tokens.Plus(*tokens)
		}
		if cost != nil {
			if sum.CostUSD == nil {
				sum.CostUSD = new(float64)
			}
			*sum.CostUSD += *cost
		}
	}
	for _, it := range slices.Concat(l.Earlier, l.iterations) {
		add(it.Tokens, it.CostUSD)
	}
	add(run.Tokens, run.CostUSD)
	return sum
}

// logBounds logs once for each bound that most of it is used, including by the current
// run.
func (l *loop) logBounds(run event.Usage) {
	b, tokens, usd := l.Bounds, l.spentTokens(), l.spentUSD()
	if run.Tokens != nil {
		tokens += run.Tokens.Total()
	}
	if run.CostUSD != nil {
		usd += *run.CostUSD
	}
	l.logBound("max_cost_usd", usd, b.MaxCostUSD)
	l.logBound("max_tokens", float64(tokens), float64(b.MaxTokens))
	l.logBound("max_duration", (b.MaxDuration - l.timeLeft()).Seconds(), b.MaxDuration.Seconds())
}

func (l *loop) logBound(name string, used, limit float64) {
	if limit == 0 || used < boundNear*limit || l.events.near[name] {
		return
	}
	if l.events.near == nil {
		l.events.near = map[string]bool{}
	}
	l.events.near[name] = true
	l.emit(&runlog.LimitNear{N: l.events.now.N, Name: name, Used: used, Limit: limit})
}

// foreign reports whether a task is of another loop's agent.
func (l *loop) foreign(t session.Task) bool { return t.Foreign && t.Assignee != l.AgentID }

// logTasks logs how a run has changed the tasks of this loop.
func (l *loop) logTasks(before, after snapshot) {
	if before.tasks == nil || after.tasks == nil || l.DryRun {
		return
	}
	for _, slug := range slices.Sorted(maps.Keys(after.tasks)) {
		b, a := before.tasks[slug], after.tasks[slug]
		if l.foreign(a) || a.Status == b.Status && a.Retries == b.Retries && a.Reason == b.Reason {
			continue
		}
		change := &runlog.TaskChange{N: l.events.now.N, ID: slug, Title: a.Title, Status: a.Status}
		if a.Status != statusDone {
			change.Reason = cut(a.Reason)
		}
		l.emit(change)
		if q := a.Question; q != nil && b.Status != statusQuestion {
			l.emit(&runlog.Question{
				N: change.N, ID: slug, Title: a.Title, Question: cut(q.Text), Options: q.Options, Default: cut(q.Default), DefaultAt: q.DefaultAt,
			})
		}
	}
}
