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

// RunEnv names the file by which the commands of an agent know which run of a
// loop they belong to.
const RunEnv = "RALPH_RUN_RECORD"

// Run is the record of one run of a loop's agent: what its commands have claimed,
// finished, given back and created. They append to a file; the loop reads it
// through a descriptor, so that removing the file takes nothing away.
type Run struct {
	file *os.File
}

// Entry is one change that a command of a run has made.
type Entry struct {
	Op string `json:"op"`
	Scope
	Slug    string   `json:"slug"`
	Agent   string   `json:"agent,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
	Result  string   `json:"result,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Task    *NewTask `json:"task,omitempty"`
}

// Claims says whether a run has begun to work on the task.
func (e Entry) Claims() bool { return e.Op == opClaim }

// Ends says whether a run has finished or given back the task.
func (e Entry) Ends() bool { return e.Op == opDone || e.Op == opFail }

const (
	opClaim  = "claim"
	opDone   = "done"
	opFail   = "fail"
	opCreate = "create"
)

// maxRunFile bounds what is read of a run's file, in bytes: agents can write it.
const maxRunFile = 16 << 20

// NewRun begins the record of a run, in a private folder.
func NewRun(dir string) (*Run, error) {
	file, err := os.CreateTemp(dir, "run-*.jsonl")
	if err != nil {
		return nil, fmt.Errorf("recording the run: %w", err)
	}
	return &Run{file: file}, nil
}

// Env is the environment variable that makes commands part of the run, as
// KEY=value.
func (r *Run) Env() string { return RunEnv + "=" + r.file.Name() }

// Entries returns what the commands of the run have done so far.
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

// openRunFile opens the record of a run. It is there, or there is none: a folder
// could have been emptied, and what else has its name could make us wait.
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

// decodeEntries leaves out what is no entry.
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

// log adds an entry to the run's record, if the caller belongs to one. Without
// the record, the loop knows less of the run; the change itself is made.
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

// logged adds an entry for a change that was made.
func (s *Store) logged(e Entry, err error) error {
	if err == nil {
		s.log(e)
	}
	return err
}
