package dispatch

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/looplog"
	"github.com/docker-ralph/docker-ralph/wire/printable"
)

// LoopStatus is what runs in a sandbox, or how the last loop there ended. All of
// it comes from where the agent rules. Its names in JSON are part of the
// command's interface.
type LoopStatus struct {
	Command   string     `json:"command"` // plan, build, or else what runs
	Running   bool       `json:"running"`
	Others    int        `json:"others"`          // that run as well
	Iteration int        `json:"iteration"`       // 0 if unknown
	Tasks     []string   `json:"tasks"`           // that the agent has claimed
	Since     *time.Time `json:"since"`           // it began
	Ended     *time.Time `json:"ended"`           // nil while it runs
	Stop      string     `json:"stop"`            // why it ended, in a word
	ExitCode  *int       `json:"exit_code"`       // nil while it runs
	Summary   string     `json:"summary"`         // what it came to, in a line
	ID        string     `json:"log,omitempty"`   // its folder below .ralph/logs
	Killed    bool       `json:"killed,omitzero"` // it does not run, and nobody noted how it ended
}

// recentLoops is how many loops of a work tree are looked at.
const recentLoops = 5

// askLimit bounds the question what runs in a sandbox.
const askLimit = 10 * time.Second

// loopOf tells what runs in a sandbox. One that nothing was started in, as far as
// this machine knows, is not asked: that takes longer than all else.
func (h Host) loopOf(ctx context.Context, l located) (*LoopStatus, error) {
	logs := loopsOf(l.sb)
	unfinished := slices.ContainsFunc(logs, func(s looplog.Seen) bool { return s.Ended.IsZero() })
	if l.sb.State == lifecycle.Paused && len(logs) > 0 && logs[0].Ended.IsZero() { // it cannot be asked
		return runningLoop([]lifecycle.Dispatch{{ID: logs[0].Dispatch, Command: []string{wire.Program, logs[0].Mode}, Since: logs[0].Started}}, logs), nil
	}
	if l.sb.State != lifecycle.Running || !unfinished && !h.hasNotes(l.sb.Name) {
		return h.lastLoop(l.sb, logs), nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	running, err := l.at.driver.Dispatches(ctx, l.sb)
	if err != nil && !errors.Is(err, lifecycle.ErrNotPrepared) {
		return h.lastLoop(l.sb, logs), err
	}
	if len(running) == 0 {
		return h.lastLoop(l.sb, logs), nil
	}
	return runningLoop(running, logs), nil
}

// loopsOf are the newest loops of a sandbox that its work tree has logs of.
func loopsOf(sb lifecycle.Sandbox) []looplog.Seen {
	return slices.DeleteFunc(looplog.Recent(sb.Root, recentLoops), func(s looplog.Seen) bool {
		return s.Branch != "" && s.Branch != sb.Scope.Branch
	})
}

// hasNotes tells whether a command of this machine may run in a sandbox.
func (h Host) hasNotes(name string) bool {
	notes, err := os.ReadDir(h.noteDir(name))
	return err == nil && len(notes) > 0
}

// runningLoop describes the latest loop among what runs, or else the latest.
func runningLoop(running []lifecycle.Dispatch, logs []looplog.Seen) *LoopStatus {
	d := running[len(running)-1]
	for _, other := range slices.Backward(running) {
		if _, loop := loopCommand(other.Command); loop {
			d = other
			break
		}
	}
	command, loop := loopCommand(d.Command)
	status := &LoopStatus{Command: command, Running: true, Others: len(running) - 1, Tasks: []string{}}
	if !d.Since.IsZero() {
		status.Since = &d.Since
	}
	if !loop {
		return status
	}
	for _, log := range logs {
		if log.Ended.IsZero() && (log.Dispatch == d.ID || log.Dispatch == "" && log.Mode == command) {
			status.Iteration, status.Tasks, status.ID = log.Now.N, lines(log.Now.Tasks), printable.Line(log.ID)
			break
		}
	}
	return status
}

// lastLoop describes the newest loop, which does not run. One without a terminal
// has left its end on this host; that says more where the work tree has no log.
func (h Host) lastLoop(sb lifecycle.Sandbox, logs []looplog.Seen) *LoopStatus {
	status := lastLoop(logs)
	e, err := Ended(h.StateDir, sb.Name)
	if err != nil || status != nil && (status.Ended != nil || status.Since.After(e.At)) {
		return status
	}
	command, _ := loopCommand(e.Command)
	return &LoopStatus{Command: command, Since: &e.Since, Ended: &e.At, ExitCode: &e.ExitCode, Summary: cmp.Or(e.Summary, printable.Line(e.Error)), Tasks: []string{}}
}

func lastLoop(logs []looplog.Seen) *LoopStatus {
	if len(logs) == 0 {
		return nil
	}
	log := logs[0]
	status := &LoopStatus{Command: printable.Line(log.Mode), Since: &log.Started, Tasks: []string{}, ID: printable.Line(log.ID)}
	if log.Last != nil {
		status.Iteration, status.Tasks = log.Last.N, lines(log.Last.Tasks)
	}
	if log.Ended.IsZero() {
		status.Killed = true
		return status
	}
	status.Ended, status.Stop, status.ExitCode = &log.Ended, printable.Line(log.Stop), &log.ExitCode
	status.Summary = printable.Line(log.Summary)
	return status
}

// tasksMax is how many tasks of a run are shown.
const tasksMax = 5

func lines(all []string) []string {
	shown := []string{}
	for _, text := range all[:min(len(all), tasksMax)] {
		shown = append(shown, printable.Line(text))
	}
	return shown
}

// loopCommand returns what a process in a sandbox is called, and whether it is a
// loop. Its command line may begin with what has started it.
func loopCommand(args []string) (name string, loop bool) {
	for i, arg := range args {
		if path.Base(strings.TrimPrefix(arg, "=")) == wire.Program && i+1 < len(args) {
			name := strings.TrimPrefix(args[i+1], "=")
			return printable.Line(name), IsLoop(name)
		}
	}
	if len(args) == 0 {
		return "?", false
	}
	return printable.Line(path.Base(args[0])), false
}
