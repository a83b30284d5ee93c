package manage

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// LoopStatus describes the command in a sandbox, or the last loop. It is from the sandbox, and
// untrusted. Its names in JSON are part of the command's interface.
type LoopStatus struct {
	Command   string     `json:"command"` // plan, build, or another command
	Running   bool       `json:"running"`
	Orphaned  bool       `json:"orphaned"`        // its process on this machine has ended: it waits after its run
	Others    int        `json:"others"`          // number of other commands
	Iteration int        `json:"iteration"`       // 0 if unknown
	Tasks     []string   `json:"tasks"`           // claimed by the agent
	Since     *time.Time `json:"since"`           // start
	Ended     *time.Time `json:"ended"`           // nil while it runs
	Stop      string     `json:"stop"`            // why it ended, in a word
	ExitCode  *int       `json:"exit_code"`       // nil while it runs
	Summary   string     `json:"summary"`         // in one line
	ID        string     `json:"log,omitempty"`   // its directory of logs
	Killed    bool       `json:"killed,omitzero"` // it has ended without an exit code
	Error     string     `json:"error,omitempty"` // why it did not succeed, or will not

	Title      string     `json:"title"` // of the first task
	RunStarted *time.Time `json:"run_started"`
	// State is a [runlog.LoopState], and what it waits for; empty unless the loop runs.
	State      string     `json:"state"`
	StateSince *time.Time `json:"state_since"`
	Until      *time.Time `json:"until"`
	Text       string     `json:"text"`
	LastOutput *time.Time `json:"last_output"` // of the agent
	// Run and Usage are what the run and the loop have used.
	Run    runlog.Usage   `json:"run"`
	Usage  runlog.Usage   `json:"usage"`
	Counts *runlog.Counts `json:"counts"` // tasks of the backlog; nil if unknown
	Limits runlog.Limits  `json:"limits"`
	// EarlierSeconds is the time of the runs before the loop was resumed.
	EarlierSeconds float64 `json:"earlier_seconds"`
}

// add adds the state in the log of a loop.
func (s *LoopStatus) add(log runlog.Snapshot) {
	now := log.Now
	s.ID, s.Title, s.Run, s.Usage, s.Limits = termsafe.Line(log.ID), termsafe.Line(now.Title), now.Run, now.Loop, now.Limits
	s.RunStarted, s.LastOutput = known(now.Started), known(now.LastOutput)
	if now.State != "" {
		s.Counts = &now.Counts
	}
	if s.Running {
		s.State, s.StateSince, s.Until, s.Text = termsafe.Line(string(now.State)), known(now.Since), known(now.Until), termsafe.Line(now.Text)
	}
}

// known returns nil for no time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// loopOf describes the command in a sandbox. Its processes are listed, which is slow, only if
// there is a run record or an unfinished log whose process on this machine does not run.
func loopOf(ctx context.Context, h host.Host, l host.Located) (*LoopStatus, error) {
	logs := loopsOf(h, l.Sandbox)
	if l.Sandbox.State == lifecycle.Paused && len(logs) > 0 && logs[0].Ended.IsZero() { // its processes cannot be listed
		return runningLoopOf(ctx, h, l.Sandbox, []lifecycle.Dispatch{{ID: logs[0].Dispatch, Command: []string{wire.Program, logs[0].Mode}, Since: logs[0].Started}}, logs), nil
	}
	records, _ := h.RecordsFor(l.Sandbox.Name) // without them, the log says what may run
	known, ok := accompanied(records, logs)
	switch {
	case ok && len(known) > 0: // also while a sandbox is started or repaired
		return runningLoopOf(ctx, h, l.Sandbox, known, logs), nil
	case ok, l.Sandbox.State != lifecycle.Running:
		return lastLoopOf(ctx, h, l.Sandbox, logs), nil
	}
	ctx, cancel := context.WithTimeout(ctx, host.AskTimeout)
	defer cancel()
	running, err := l.Backend.Driver.Dispatches(ctx, l.Sandbox)
	if err != nil && !errors.Is(err, lifecycle.ErrNotPrepared) {
		return lastLoopOf(ctx, h, l.Sandbox, logs), err
	}
	if len(running) == 0 {
		return lastLoopOf(ctx, h, l.Sandbox, logs), nil
	}
	status := runningLoopOf(ctx, h, l.Sandbox, running, logs)
	d := latest(running)
	_, loop := host.LoopCommand(d.Command)
	status.Orphaned = loop && !slices.ContainsFunc(records, func(r host.Record) bool { return r.Live && r.ID == d.ID })
	return status, nil
}

// loopsOf returns the newest loops of a sandbox from its logs: those that have worked, or else the last one.
func loopsOf(h host.Host, sb lifecycle.Sandbox) []runlog.Snapshot {
	all := runlog.Recent(h.LogsOf(sb), math.MaxInt, runlog.Any)
	worked := slices.DeleteFunc(slices.Clone(all), func(s runlog.Snapshot) bool { return !s.Worked() })
	if len(worked) == 0 {
		return all[:min(len(all), 1)]
	}
	return worked[:min(len(worked), run.RecentLoops)]
}

// accompanied returns the running commands according to their processes on this machine. It is
// not ok if there can be others.
func accompanied(records []host.Record, logs []runlog.Snapshot) (running []lifecycle.Dispatch, ok bool) {
	ended := map[string]bool{}
	for _, log := range logs {
		if !log.Ended.IsZero() {
			ended[log.Dispatch] = true
		} else if !slices.ContainsFunc(records, func(r host.Record) bool { return r.Live && r.ID == log.Dispatch }) {
			return nil, false
		}
	}
	for _, r := range records {
		if !r.Live {
			return nil, false
		}
		if !ended[r.ID] { // otherwise it fetches the last commits
			running = append(running, lifecycle.Dispatch{ID: r.ID, Command: r.Command, Since: r.Since})
		}
	}
	slices.SortFunc(running, func(a, b lifecycle.Dispatch) int { return a.Since.Compare(b.Since) })
	return running, true
}

// runningLoopOf is runningLoop, with the reason why the user's branch does not get commits.
func runningLoopOf(ctx context.Context, h host.Host, sb lifecycle.Sandbox, running []lifecycle.Dispatch, logs []runlog.Snapshot) *LoopStatus {
	status := runningLoop(running, logs)
	if u := commits.UnmergedOf(ctx, h, sb); u != nil {
		status.Error = termsafe.Line(u.Why)
	}
	return status
}

// latest returns the latest running loop, or else the latest running command.
func latest(running []lifecycle.Dispatch) lifecycle.Dispatch {
	for _, d := range slices.Backward(running) {
		if _, loop := host.LoopCommand(d.Command); loop {
			return d
		}
	}
	return running[len(running)-1]
}

// runningLoop describes the latest running loop, or else the latest running command.
func runningLoop(running []lifecycle.Dispatch, logs []runlog.Snapshot) *LoopStatus {
	d := latest(running)
	command, loop := host.LoopCommand(d.Command)
	status := &LoopStatus{Command: command, Running: true, Others: len(running) - 1, Tasks: []string{}}
	if !d.Since.IsZero() {
		status.Since = &d.Since
	}
	if !loop {
		return status
	}
	for _, log := range logs {
		if log.Ended.IsZero() && (log.Dispatch == d.ID || log.Dispatch == "" && log.Mode == command) {
			status.Iteration, status.Tasks = log.Now.N, lines(log.Now.Tasks)
			status.add(log)
			break
		}
	}
	return status
}

// lastLoopOf describes the last loop. For a background loop without a log, it uses the record of its end.
func lastLoopOf(ctx context.Context, h host.Host, sb lifecycle.Sandbox, logs []runlog.Snapshot) *LoopStatus {
	if len(logs) > 0 {
		logs = slices.Clone(logs)
		logs[0].Loop = commits.EndOf(ctx, h, sb, logs[0].Loop)
	}
	status := lastLoop(logs)
	e, err := host.Ended(h.StateDir, sb.Name)
	if err != nil || status != nil && (status.Ended != nil || status.Since.After(e.At)) {
		return status
	}
	command, _ := host.LoopCommand(e.Command)
	return &LoopStatus{
		Command: command, Since: &e.Since, Ended: &e.At, ExitCode: &e.ExitCode, Tasks: []string{},
		Summary: cmp.Or(e.Summary, termsafe.Line(e.Error)), Error: termsafe.Line(e.Error),
	}
}

func lastLoop(logs []runlog.Snapshot) *LoopStatus {
	if len(logs) == 0 {
		return nil
	}
	log := logs[0]
	status := &LoopStatus{Command: termsafe.Line(log.Mode), Since: &log.Started, Tasks: []string{}}
	status.add(log)
	if log.Last != nil {
		status.Iteration, status.Tasks = log.Last.N, lines(log.Last.Tasks)
	}
	if log.Ended.IsZero() {
		status.Killed = true
		return status
	}
	status.Ended, status.Stop, status.ExitCode = &log.Ended, termsafe.Line(log.Stop), &log.ExitCode
	status.Summary, status.Error = termsafe.Line(log.Summary), termsafe.Line(log.Error)
	return status
}

// tasksMax limits the tasks of a run.
const tasksMax = 5

func lines(all []string) []string {
	shown := []string{}
	for _, text := range all[:min(len(all), tasksMax)] {
		shown = append(shown, termsafe.Line(text))
	}
	return shown
}
