// Package runlog keeps what loops leave behind in the work tree, below
// .ralph/logs/<loop>: the raw stream of every run, a line of figures for each,
// and how the loop ended; and transcripts of other commands beside them. It
// never writes outside the work tree, whatever links an agent has planted there.
package runlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	// maxIterationsFile bounds what is read back of a file that an agent can
	// write, in bytes.
	maxIterationsFile = 16 << 20
)

// Iteration is what one run of the agent came to.
type Iteration struct {
	// N counts the loop's runs from 1; it is the name of the run's stream.
	N int `json:"n"`
	// Tasks are the tasks that the agent took.
	Tasks []string `json:"tasks"`
	// Done are those of them that it finished, and that count.
	Done    []string  `json:"done,omitempty"`
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
	Commit  string    `json:"commit,omitempty"` // last one made
	Commits int       `json:"commits"`
	Started time.Time `json:"started"`
	// Seconds is the wall time of the run and of the checks after it.
	Seconds  float64 `json:"seconds"`
	ExitCode int     `json:"exit_code"`
	// Tokens and CostUSD are nil where the agent reports none.
	Tokens  *event.Tokens `json:"tokens"`
	CostUSD *float64      `json:"cost_usd"`
	// Refused are the places that the network refused meanwhile.
	Refused []denylog.Refusal `json:"refused,omitempty"`
}

// Loop identifies a loop and says how it ended.
type Loop struct {
	ID      string `json:"id"`
	Mode    string `json:"mode"`
	Repo    string `json:"repo,omitempty"`
	Branch  string `json:"branch,omitempty"`
	Agent   string `json:"agent"`
	AgentID string `json:"agent_id,omitempty"`
	// Dispatch is the command from the host that runs the loop; empty if there
	// is none.
	Dispatch string    `json:"dispatch,omitempty"`
	Started  time.Time `json:"started"`
	// Resumed is when it went on after an end; zero if it did not.
	Resumed time.Time `json:"resumed,omitzero"`
	// Ended and what follows are zero while the loop runs, and for ever when
	// it was killed.
	Ended    time.Time `json:"ended,omitzero"`
	Stop     string    `json:"stop,omitempty"`
	ExitCode int       `json:"exit_code"`
	// Summary is what the loop came to, in a line for people.
	Summary string `json:"summary,omitempty"`
}

// Log is the folder of one loop.
type Log struct {
	Loop   Loop
	root   *os.Root // the work tree
	output *Output  // nil until somebody asks for it
	held   []held   // the loop's files, oldest first
}

// Create makes the folder of a new loop in the work tree top, and removes
// those of old ones that are too many.
func Create(top string, loop Loop) (*Log, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, fmt.Errorf("creating the loop's log: %w", err)
	}
	l := &Log{Loop: loop, root: root}
	if err := l.create(); err != nil {
		_ = root.Close() // the first error says more
		return nil, fmt.Errorf("creating the loop's log: %w", err)
	}
	l.prune(keptLoops, keptBytes)
	return l, nil
}

func (l *Log) create() error {
	if err := l.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := hideFromGit(l.root, ignoreFile, nil); err != nil {
		return err
	}
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

// hideFromGit writes .ralph/.gitignore unless there is one.
func hideFromGit(at *os.Root, file string, owner *Owner) error {
	f, err := at.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, owner.take(at, file), f.Close())
}

// ErrRunning says that a loop cannot be resumed, because it has not ended.
var ErrRunning = errors.New("the loop is still running")

// Resume opens the newest log of a loop with the same mode, repository and
// branch, and returns its iterations. The error is [fs.ErrNotExist] if there
// is none, and [ErrRunning] if that loop is alive.
func Resume(top string, loop Loop, alive func(agentID string) bool) (*Log, []Iteration, error) {
	l, _, iterations, err := openNewest(top, func(found Loop) bool {
		return found.Mode == loop.Mode && found.Repo == loop.Repo && found.Branch == loop.Branch
	})
	if err != nil {
		return nil, nil, fmt.Errorf("looking for a loop to resume: %w", err)
	}
	if l.Loop.AgentID != "" && alive(l.Loop.AgentID) {
		_ = l.root.Close() // nothing was written
		return nil, nil, ErrRunning
	}
	loop.ID, loop.Started, loop.Resumed = l.Loop.ID, l.Loop.Started, loop.Started
	l.Loop = loop
	return l, iterations, l.save()
}

// Recover opens the log of the loop of a dispatch, which died with its sandbox,
// for another that takes its place. It returns its iterations, and how many of
// them the dispatch has made. A run that was under way is recorded with the
// outcome and the reason, and with what finished says that the loop's agent has
// done. The error is [fs.ErrNotExist] if there is no such log.
func Recover(top string, loop Loop, outcome, reason string, finished func(agentID string) []string) (l *Log, all []Iteration, made int, err error) {
	l, now, all, err := openNewest(top, func(found Loop) bool {
		return found.Mode == loop.Mode && found.Dispatch == loop.Dispatch
	})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("looking for the log of the loop that died: %w", err)
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
		_ = l.Append(it) // the run counts all the same
	}
	for _, it := range all {
		if !it.Started.Before(died.begun()) {
			made++
		}
	}
	return l, all, made, l.save()
}

// openNewest opens the newest log that suits, and reads what its loop was at.
func openNewest(top string, suits func(Loop) bool) (*Log, Now, []Iteration, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, Now{}, nil, err
	}
	for _, id := range slices.Backward(loops(root)) {
		l := &Log{root: root, Loop: Loop{ID: id}}
		found, err := l.load()
		if err != nil || !suits(found) {
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
		if b, err := readSome(root, l.name(nowFile), readNote); err != nil || json.Unmarshal(b, &now) != nil {
			now = Now{} // it had not begun a run
		}
		return l, now, iterations, nil
	}
	_ = root.Close()
	return nil, Now{}, nil, fs.ErrNotExist
}

// Dir is the folder of the loop, relative to the work tree.
func (l *Log) Dir() string { return l.name("") }

func (l *Log) name(file string) string { return path.Join(dir, l.Loop.ID, file) }

// Append adds the figures of a run.
func (l *Log) Append(it Iteration) error {
	line, err := json.Marshal(it)
	if err != nil {
		return fmt.Errorf("logging iteration %d: %w", it.N, err)
	}
	f, err := l.root.OpenFile(l.name(iterationsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("logging iteration %d: %w", it.N, err)
	}
	err = writeWhole(f, append(line, '\n'))
	if err := errors.Join(err, f.Close(), l.holdFile(l.name(iterationsFile))); err != nil {
		return fmt.Errorf("logging iteration %d: %w", it.N, err)
	}
	return nil
}

// writeWhole adds a line to the end of a file, or nothing: the next line could not be
// read behind a part of it.
func writeWhole(f *os.File, line []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err = f.Write(line); err != nil {
		err = errors.Join(err, f.Truncate(info.Size()))
	}
	return err
}

// Finish notes how the loop ended, and closes the log. Its output can still be
// written to, until the program ends.
func (l *Log) Finish(stop string, exitCode int, summary string) error {
	l.Loop.Ended, l.Loop.Stop, l.Loop.ExitCode, l.Loop.Summary = time.Now().UTC(), stop, exitCode, summary
	for _, h := range l.held {
		_ = h.file.Close() // only read
	}
	if err := errors.Join(l.save(), l.root.Close()); err != nil {
		return fmt.Errorf("logging the loop's end: %w", err)
	}
	return nil
}

func (l *Log) save() error { return l.write(loopFile, l.Loop) }

// write writes a file as a whole: a reader never finds half of it.
func (l *Log) write(file string, content any) error {
	b, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	temp := l.name(file + ".new")
	f, err := l.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return l.root.Rename(temp, l.name(file))
}

func (l *Log) load() (Loop, error) {
	b, err := readSome(l.root, l.name(loopFile), 1<<20)
	if err != nil {
		return Loop{}, err
	}
	var loop Loop
	return loop, json.Unmarshal(b, &loop)
}

// iterations reads the figures back. A line that is broken, because the
// program was killed while it wrote, is left out.
func (l *Log) iterations() ([]Iteration, error) {
	b, err := readSome(l.root, l.name(iterationsFile), maxIterationsFile)
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

func readSome(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, limit))
}

// loops lists the loops of a work tree, oldest first.
func loops(root *os.Root) []string {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil // there are none
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && strings.Contains(e.Name(), "-") {
			ids = append(ids, e.Name())
		}
	}
	return ids // ReadDir sorts, and names begin with the time
}
