// Package runlog reads and writes the logs of loops, each in a directory of the directory of logs:
// the output, the statistics and the result of every run. Transcripts of other commands are beside
// them. The directory is on the host, or in the worktree of ralph on a plain host.
package runlog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

const (
	iterationsFile = "iterations.jsonl"
	loopFile       = "loop.json"
	// loopStamp is the prefix of the names of loops, which sort by time.
	loopStamp = "20060102-150405"
	// maxIterationsFile bounds reads of the list of runs, in bytes.
	maxIterationsFile = 16 << 20
)

// Iteration is the result of a run of the agent.
type Iteration struct {
	N       int      `json:"n"`               // from 1
	Tasks   []string `json:"tasks"`           // claimed
	Done    []string `json:"done,omitempty"`  // finished and accepted
	Asked   []string `json:"asked,omitempty"` // waiting for an answer
	Outcome string   `json:"outcome"`
	Reason  string   `json:"reason,omitempty"`
	Commit  string   `json:"commit,omitempty"` // the last one
	Commits int      `json:"commits"`
	// Attempt is the ref of what the run has left that is not on the branch.
	Attempt string `json:"attempt,omitempty"`

	Started time.Time `json:"started"`
	// Seconds is the wall time of the run and its checks.
	Seconds  float64 `json:"seconds"`
	ExitCode int     `json:"exit_code"`
	// Tokens and CostUSD are nil if unknown. They are reported by the agent, or else counted
	// by the proxy and estimated.
	Tokens        *event.Tokens `json:"tokens"`
	CostUSD       *float64      `json:"cost_usd"`
	CostEstimated bool          `json:"cost_estimated,omitempty"`
	// Refused are the connections blocked during the run.
	Refused []denylog.Refusal `json:"refused,omitempty"`
	Model   string            `json:"model,omitempty"`
	Checks  []Check           `json:"checks,omitempty"`
	// Retries counts the agent's repeated requests to the model.
	Retries int `json:"retries,omitempty"`
	// Denied counts tool calls that the agent's settings denied, HookErrors the errors of its
	// hooks that denied none.
	Denied     int `json:"denied,omitempty"`
	HookErrors int `json:"hook_errors,omitempty"`
	// Planned is what a run of plan has changed in the backlog.
	Planned *Planned `json:"planned,omitempty"`
}

// Planned counts the tasks that a plan has changed.
type Planned struct {
	Added    int `json:"added"`
	Changed  int `json:"changed"`
	Closed   int `json:"closed"` // done or deleted
	Reopened int `json:"reopened"`
	// DryRun says that the backlog was not changed. Tasks are then those of the whole plan.
	DryRun bool          `json:"dry_run,omitempty"`
	Tasks  []PlannedTask `json:"tasks,omitempty"`
}

// PlannedTask is a task that a plan would change.
type PlannedTask struct {
	Change string `json:"change"` // add, change, close or reopen
	ID     string `json:"id"`
	Title  string `json:"title"`
}

// Check is a check of finished tasks.
type Check struct {
	Command  string  `json:"command"`
	Seconds  float64 `json:"seconds"`
	ExitCode int     `json:"exit_code"`
	Failure  string  `json:"failure,omitempty"` // e.g. "failed with exit code 1"
}

// Loop is the state of a loop.
type Loop struct {
	ID      string `json:"id"`
	Mode    string `json:"mode"`
	Repo    string `json:"repo,omitempty"`
	Branch  string `json:"branch,omitempty"`
	Agent   string `json:"agent"`
	AgentID string `json:"agent_id,omitempty"`
	// Dispatch is the dispatch of the host that runs the loop, if any.
	Dispatch string    `json:"dispatch,omitempty"`
	Started  time.Time `json:"started"`
	Resumed  time.Time `json:"resumed,omitzero"`
	// Ended and the following fields are zero while the loop runs, and if it was
	// killed.
	Ended    time.Time `json:"ended,omitzero"`
	Stop     string    `json:"stop,omitempty"`
	ExitCode int       `json:"exit_code"`
	Error    string    `json:"error,omitempty"`   // why it did not succeed, in one line
	Summary  string    `json:"summary,omitempty"` // one line
}

// Log is the log of a loop.
type Log struct {
	Loop   Loop
	files  Files
	output *Output // nil before [Log.Output]
	now    *Now    // nil before the first [Log.SetNow]
}

// New returns the log of a loop whose files exist elsewhere.
func New(loop Loop, files Files) *Log { return &Log{Loop: loop, files: files} }

// Create creates the log of a new loop in the directory of logs, and prunes old ones.
func Create(dir string, loop Loop) (*Log, error) {
	l, err := createLog(dir, loop)
	if err != nil {
		return nil, fmt.Errorf("creating the loop's log: %w", err)
	}
	return l, nil
}

func createLog(dir string, loop Loop) (*Log, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	logs, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	l := &Log{Loop: loop}
	if l.Loop.ID, err = makeLoop(logs, loop); err != nil {
		return nil, err
	}
	at, err := OpenDir(logs, l.Loop.ID)
	if err != nil {
		return nil, err
	}
	l.files = local{at}
	if err := l.save(); err != nil {
		l.Close()
		return nil, err
	}
	prune(logs, maxLoops, maxBytes, l.Loop.ID)
	return l, nil
}

// makeLoop creates the directory of a new loop.
func makeLoop(logs *os.Root, loop Loop) (id string, err error) {
	base := loop.Started.UTC().Format(loopStamp) + "-" + loop.Mode
	if !validLoop(base) {
		return "", fmt.Errorf("invalid name %q", base)
	}
	id = base
	for n := 2; ; n++ {
		err := logs.Mkdir(id, 0o755)
		if errors.Is(err, fs.ErrExist) && n <= 1000 {
			id = fmt.Sprintf("%s-%d", base, n)
			continue
		}
		return id, err
	}
}

// Close closes a log that is not continued here.
func (l *Log) Close() {
	if closer, ok := l.files.(io.Closer); ok {
		_ = closer.Close() // nothing is buffered
	}
}

// ErrRunning is returned if a loop cannot be resumed because it is running.
var ErrRunning = errors.New("the loop is still running")

// Resume opens the newest log in the directory of a loop with the same mode, repository and
// branch that has made a run, or else the newest one, and returns its iterations. The error is [fs.ErrNotExist] if there
// is none, and [ErrRunning] if that loop is alive.
func Resume(dir string, loop Loop, alive func(agentID string) bool) (*Log, []Iteration, error) {
	l, _, iterations, err := openNewest(dir, func(found Loop) bool {
		return found.Mode == loop.Mode && found.Repo == loop.Repo && found.Branch == loop.Branch
	})
	if err != nil {
		return nil, nil, fmt.Errorf("finding a loop to resume: %w", err)
	}
	if l.Loop.AgentID != "" && alive(l.Loop.AgentID) {
		l.Close()
		return nil, nil, ErrRunning
	}
	loop.ID, loop.Started, loop.Resumed = l.Loop.ID, l.Loop.Started, loop.Started
	l.Loop = loop
	return l, iterations, l.save()
}

// Recover opens the log of a dispatch's loop, which died with its sandbox, for a
// loop that continues it. It returns all iterations and the number of those in
// this dispatch. An interrupted run is recorded with the outcome and reason; its
// finished tasks are those that finished returns. The error is [fs.ErrNotExist]
// if there is no such log.
func Recover(dir string, loop Loop, outcome, reason string, finished func(agentID string) []string) (l *Log, all []Iteration, made int, err error) {
	l, now, all, err := openNewest(dir, func(found Loop) bool {
		return found.Mode == loop.Mode && found.Dispatch == loop.Dispatch
	})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("finding the log of the dead loop: %w", err)
	}
	died := l.Loop
	loop.ID, loop.Started, loop.Resumed = died.ID, died.Started, died.Resumed
	l.Loop = loop
	if now.N > len(all) {
		it := Iteration{N: now.N, Outcome: outcome, Reason: reason, Started: now.Started, ExitCode: -1}
		it.Done = slices.DeleteFunc(finished(died.AgentID), func(task string) bool {
			return slices.ContainsFunc(all, func(earlier Iteration) bool { return slices.Contains(earlier.Done, task) })
		})
		it.Tasks = slices.Compact(slices.Sorted(slices.Values(slices.Concat(now.Tasks, it.Done))))
		it.Seconds = max(0, time.Since(now.Started).Seconds())
		all = append(all, it)
		_ = l.Append(it) // the run counts even if it is not logged
	}
	for _, it := range all {
		if !it.Started.Before(died.begun()) {
			made++
		}
	}
	return l, all, made, l.save()
}

// openNewest opens the newest matching log with a run, or else the newest one, and reads its last
// run and iterations.
func openNewest(dir string, matches func(Loop) bool) (*Log, Now, []Iteration, error) {
	logs, err := os.OpenRoot(dir)
	if err != nil {
		return nil, Now{}, nil, err
	}
	defer func() { _ = logs.Close() }()
	without := ""
	for _, id := range slices.Backward(loopNames(logs)) {
		l, err := openLog(logs, id)
		if err != nil {
			continue // not a loop
		}
		now, iterations, err := l.progress()
		switch {
		case !matches(l.Loop):
		case err != nil:
			l.Close()
			return nil, Now{}, nil, err
		case len(iterations) > 0 || now.N > 0 || l.Loop.Ended.IsZero():
			return l, now, iterations, nil
		default:
			without = cmp.Or(without, id)
		}
		l.Close()
	}
	if without == "" {
		return nil, Now{}, nil, fs.ErrNotExist
	}
	l, err := openLog(logs, without)
	return l, Now{}, nil, err
}

// openLog opens the log of an earlier loop.
func openLog(logs *os.Root, id string) (*Log, error) {
	at, err := OpenDir(logs, id)
	if err != nil {
		return nil, err
	}
	loop, err := readLoop(at)
	if err != nil {
		_ = at.Close() // only read
		return nil, err
	}
	loop.ID = id
	return &Log{Loop: loop, files: local{at}}, nil
}

// progress reads the last run and the logged ones of an earlier loop.
func (l *Log) progress() (now Now, all []Iteration, err error) {
	at := l.files.(local).root
	if b, err := readTail(at, nowFile, maxNote); err != nil || json.Unmarshal(b, &now) != nil {
		now = Now{} // before the first run
	}
	if all, err = readIterations(at); err != nil {
		err = fmt.Errorf("reading the log of loop %s: %w", l.Loop.ID, err)
	}
	return now, all, err
}

// Append logs the end of a run.
func (l *Log) Append(it Iteration) error {
	if err := errors.Join(l.append(it), l.Emit(&RunEnd{it})); err != nil {
		return fmt.Errorf("logging iteration %d: %w", it.N, err)
	}
	return nil
}

func (l *Log) append(it Iteration) error {
	line, err := json.Marshal(it)
	if err != nil {
		return err
	}
	return l.files.Append(iterationsFile, append(line, '\n'))
}

// Finish records the end of the loop and closes the log. The state of the loop is the last that is written: who reads
// that it has ended finds all else.
func (l *Log) Finish(end LoopEnd) error {
	now := time.Now().UTC()
	l.Loop.Ended, l.Loop.Stop, l.Loop.ExitCode, l.Loop.Error, l.Loop.Summary = now, end.Stop, end.ExitCode, end.Error, end.Summary
	var last Now
	if l.now != nil {
		last = *l.now
	}
	last.State, last.Since, last.Until, last.Text = StateEnded, now, time.Time{}, end.Error
	err := errors.Join(l.SetNow(last), l.Emit(&end), l.save())
	l.Close()
	if err != nil {
		return fmt.Errorf("logging the loop's end: %w", err)
	}
	return nil
}

func (l *Log) save() error { return l.write(loopFile, l.Loop) }

// write replaces a file atomically.
func (l *Log) write(file string, content any) error {
	b, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return l.files.Replace(file, append(b, '\n'))
}

func readLoop(at *os.Root) (Loop, error) {
	b, err := readTail(at, loopFile, maxState)
	if err != nil {
		return Loop{}, err
	}
	return parseLoop(b)
}

// readIterations reads the logged runs and skips incomplete lines.
func readIterations(at *os.Root) (all []Iteration, err error) {
	b, err := readTail(at, iterationsFile, maxIterationsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, maxIterationsFile)
	for lines.Scan() {
		var it Iteration
		if json.Unmarshal(lines.Bytes(), &it) == nil && it.N > 0 {
			all = append(all, it)
		}
	}
	return all, lines.Err()
}
