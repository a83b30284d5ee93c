package backlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// RunEnv is the environment variable with the path of the run record.
const RunEnv = "RALPH_RUN_RECORD"

// Run is the record of one run of an agent: the tasks that its commands have
// claimed, finished, released and created. The commands append to a file; the
// loop has it open, so removing it loses nothing.
type Run struct {
	file *os.File
}

// Entry is a change by a command of a run.
type Entry struct {
	Op string `json:"op"`
	Scope
	Slug     string       `json:"slug"`
	Agent    string       `json:"agent,omitempty"`
	Attempt  int          `json:"attempt,omitempty"`
	Result   string       `json:"result,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Task     *NewTask     `json:"task,omitempty"`
	Question *NewQuestion `json:"asked,omitempty"`
}

// Claims reports whether the entry is a claim.
func (e Entry) Claims() bool { return e.Op == opClaim }

// Ends reports whether the entry finishes, releases or parks the task.
func (e Entry) Ends() bool { return e.Op == opDone || e.Op == opFail || e.Op == opAsk }

const (
	opClaim  = "claim"
	opDone   = "done"
	opFail   = "fail"
	opCreate = "create"
	opAsk    = "ask"
)

// maxRunFile bounds the size of a run record, which agents can write, in bytes.
const maxRunFile = 16 << 20

// NewRun creates a run record in a private directory.
func NewRun(dir string) (*Run, error) {
	file, err := os.CreateTemp(dir, "run-*.jsonl")
	if err != nil {
		return nil, fmt.Errorf("recording the run: %w", err)
	}
	return &Run{file: file}, nil
}

// Env returns the environment of the commands of the run, as KEY=value.
func (r *Run) Env() string { return RunEnv + "=" + r.file.Name() }

// Entries returns the changes of the run so far.
func (r *Run) Entries() []Entry { return decodeEntries(io.NewSectionReader(r.file, 0, maxRunFile)) }

// Close removes the record.
func (r *Run) Close() error {
	err := os.Remove(r.file.Name())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, r.file.Close())
}

func readEntries(path string) []Entry {
	f, err := openRunFile(path, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	return decodeEntries(io.LimitReader(f, maxRunFile))
}

// openRunFile opens a run record if it is a regular file. Opening a pipe could
// block.
func openRunFile(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Clean(path), flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, os.ErrInvalid, f.Close())
	}
	return f, nil
}

// decodeEntries skips invalid lines.
func decodeEntries(r io.Reader) []Entry {
	var all []Entry
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxRunFile)
	for lines.Scan() {
		var e Entry
		if json.Unmarshal(bytes.TrimSpace(lines.Bytes()), &e) == nil && e.Slug != "" {
			all = append(all, e)
		}
	}
	return all
}

// log appends an entry to the run record, if there is one. Errors are ignored: the
// change itself is committed.
func (s *Store) log(e Entry) {
	if s.fence.run == "" {
		return
	}
	e.Scope = s.scope
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	f, err := openRunFile(s.fence.run, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return
	}
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()
}

// logged logs a successful change.
func (s *Store) logged(e Entry, err error) error {
	if err == nil {
		s.log(e)
	}
	return err
}
