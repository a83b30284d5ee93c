// Package runlog reads and writes the logs of loops in .ralph/logs/<loop> of a
// worktree: the output, the statistics and the result of every run. Transcripts of
// other commands are beside them. It never writes outside the worktree, even if an
// agent creates links there.
package runlog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

const (
	dir            = ".ralph/logs"
	ignoreFile     = ".ralph/.gitignore"
	iterationsFile = "iterations.jsonl"
	loopFile       = "loop.json"
	// maxLoopFile and maxIterationsFile bound reads of files that an agent can
	// write, in bytes.
	maxLoopFile       = 1 << 20
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
	// OffBranch are commits that the branch lacked after the run, e.g. on another one.
	OffBranch []string `json:"off_branch,omitempty"`

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
}

// Check is a check of finished tasks.
type Check struct {
	Command string  `json:"command"`
	Seconds float64 `json:"seconds"`
	Failure string  `json:"failure,omitempty"` // e.g. "failed with exit code 1"
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
	root   *os.Root // the worktree
	output *Output  // nil before [Log.Output]
	events *os.File // nil before the first event
	now    *Now     // nil before the first [Log.SetNow]
	held   []held   // oldest first
}

// Create creates the log of a new loop in the worktree top, and prunes old ones.
func Create(top string, loop Loop) (*Log, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, fmt.Errorf("creating the loop's log: %w", err)
	}
	l := &Log{Loop: loop, root: root}
	if err := l.create(top); err != nil {
		_ = root.Close() // the first error says more
		return nil, fmt.Errorf("creating the loop's log: %w", err)
	}
	l.prune(maxLoops, maxBytes, l.is)
	return l, nil
}

func (l *Log) create(top string) error {
	logs, err := MakeLogs(top, nil)
	if err != nil {
		return err
	}
	_ = logs.Close() // nothing was written
	base := l.Loop.Started.UTC().Format("20060102-150405") + "-" + l.Loop.Mode
	for n := 1; ; n++ {
		l.Loop.ID = base
		if n > 1 {
			l.Loop.ID = fmt.Sprintf("%s-%d", base, n)
		}
		err := l.root.Mkdir(l.name(""), 0o755)
		if errors.Is(err, fs.ErrExist) && n < 1000 {
			continue
		}
		if err != nil {
			return err
		}
		return l.save()
	}
}

// hideFromGit writes .ralph/.gitignore if it does not exist.
func hideFromGit(at *os.Root, file string, owner *Owner) error {
	err := createFile(at, file, []byte("*\n"))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return owner.Chown(at, file)
}

// ErrRunning is returned if a loop cannot be resumed because it is running.
var ErrRunning = errors.New("the loop is still running")

// Resume opens the newest log of a loop with the same mode, repository and
// branch that has made a run, or else the newest one, and returns its iterations. The error is [fs.ErrNotExist] if there
// is none, and [ErrRunning] if that loop is alive.
func Resume(top string, loop Loop, alive func(agentID string) bool) (*Log, []Iteration, error) {
	l, _, iterations, err := openNewest(top, func(found Loop) bool {
		return found.Mode == loop.Mode && found.Repo == loop.Repo && found.Branch == loop.Branch
	})
	if err != nil {
		return nil, nil, fmt.Errorf("finding a loop to resume: %w", err)
	}
	if l.Loop.AgentID != "" && alive(l.Loop.AgentID) {
		_ = l.root.Close() // nothing was written
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
func Recover(top string, loop Loop, outcome, reason string, finished func(agentID string) []string) (l *Log, all []Iteration, made int, err error) {
	l, now, all, err := openNewest(top, func(found Loop) bool {
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
func openNewest(top string, matches func(Loop) bool) (*Log, Now, []Iteration, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, Now{}, nil, err
	}
	var without *Log
	for _, id := range slices.Backward(loops(root)) {
		l := &Log{root: root, Loop: Loop{ID: id}}
		found, err := l.load()
		if err != nil || !matches(found) {
			continue
		}
		found.ID = id
		l.Loop = found
		iterations, err := l.iterations()
		if err != nil {
			_ = root.Close() // the first error says more
			return nil, Now{}, nil, err
		}
		var now Now
		if b, err := readTail(root, l.name(nowFile), maxNote); err != nil || json.Unmarshal(b, &now) != nil {
			now = Now{} // before the first run
		}
		if len(iterations) == 0 && now.N == 0 && !found.Ended.IsZero() {
			without = cmp.Or(without, l)
			continue
		}
		l.holdAll()
		return l, now, iterations, nil
	}
	if without != nil {
		without.holdAll()
		return without, Now{}, nil, nil
	}
	_ = root.Close()
	return nil, Now{}, nil, fs.ErrNotExist
}

// Dir is the directory of the loop, relative to the worktree.
func (l *Log) Dir() string { return l.name("") }

func (l *Log) name(file string) string { return path.Join(dir, l.Loop.ID, file) }

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
	f, err := l.root.OpenFile(l.name(iterationsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	err = appendLine(f, append(line, '\n'))
	return errors.Join(err, f.Close(), l.holdFile(l.name(iterationsFile)))
}

// appendLine appends a line, or nothing: a partial one would corrupt the next.
func appendLine(f *os.File, line []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err = f.Write(line); err != nil {
		err = errors.Join(err, f.Truncate(info.Size()))
	}
	return err
}

// Finish records the end of the loop and closes the log. [Log.Output] stays open.
func (l *Log) Finish(end LoopEnd) error {
	now := time.Now().UTC()
	l.Loop.Ended, l.Loop.Stop, l.Loop.ExitCode, l.Loop.Error, l.Loop.Summary = now, end.Stop, end.ExitCode, end.Error, end.Summary
	for _, h := range l.held {
		_ = h.file.Close() // only read
	}
	l.held = nil
	var last Now
	if l.now != nil {
		last = *l.now
	}
	last.State, last.Since, last.Until, last.Text = StateEnded, now, time.Time{}, end.Error
	err := errors.Join(l.SetNow(last), l.save(), l.Emit(&end), l.closeEvents(), l.root.Close())
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
	return replaceFile(l.root, l.name(file), append(b, '\n'))
}

// replaceFile replaces a file atomically, without following a link.
func replaceFile(at *os.Root, name string, content []byte) error {
	temp := name + ".new"
	err := at.RemoveAll(temp)
	if err == nil {
		err = createFile(at, temp, content)
	}
	if err == nil {
		err = at.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, at.RemoveAll(temp))
	}
	return nil
}

func createFile(at *os.Root, name string, content []byte) error {
	f, err := at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

func (l *Log) load() (Loop, error) {
	b, err := readTail(l.root, l.name(loopFile), maxLoopFile)
	if err != nil {
		return Loop{}, err
	}
	return parseLoop(b)
}

// iterations reads the logged runs and skips incomplete lines.
func (l *Log) iterations() ([]Iteration, error) {
	b, err := readTail(l.root, l.name(iterationsFile), maxIterationsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the log of loop %s: %w", l.Loop.ID, err)
	}
	var all []Iteration
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

// loops lists the loops of a worktree, oldest first.
func loops(root *os.Root) []string {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && strings.Contains(e.Name(), "-") {
			ids = append(ids, e.Name())
		}
	}
	return ids // ReadDir sorts, and names begin with the time
}
