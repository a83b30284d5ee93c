package attempt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

// Begun is a run whose uncommitted changes were not set aside yet. It is recorded in the git directory of a sandbox's
// clone, because the loop, which can be killed, knows alone what was there before.
type Begun struct {
	State
	Agent  string   // its ID in the backlog
	Claims []string // of the agent's earlier runs
}

// maxBegun limits the record: an agent can replace it.
const maxBegun = 64 << 20

func (w Worktree) begunPath() string { return filepath.Join(string(w), ".git", attemptref.BegunFile) }

// Begin records a run.
func (w Worktree) Begin(b Begun) error {
	fields := []string{b.Agent}
	for _, list := range [][]string{b.Claims, b.Files, b.Operations} {
		fields = append(append(fields, strconv.Itoa(len(list))), list...)
	}
	if err := atomicwriter.WriteFile(w.begunPath(), []byte(strings.Join(fields, "\x00")), 0o600); err != nil {
		return fmt.Errorf("recording the run: %w", err)
	}
	return nil
}

// Begun returns the recorded run; nil if there is none, or an agent has overwritten it.
func (w Worktree) Begun() (*Begun, error) {
	f, err := os.OpenFile(w.begunPath(), os.O_RDONLY|syscall.O_NONBLOCK, 0) // an agent could have made a pipe of it
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var content []byte
	if err == nil {
		defer func() { _ = f.Close() }()
		content, err = io.ReadAll(io.LimitReader(f, maxBegun))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of the last run: %w", err)
	}
	fields := strings.Split(string(content), "\x00")
	b := &Begun{Agent: fields[0]}
	fields = fields[1:]
	for _, list := range []*[]string{&b.Claims, &b.Files, &b.Operations} {
		if len(fields) == 0 {
			return nil, nil
		}
		n, err := strconv.Atoi(fields[0])
		if fields = fields[1:]; err != nil || n < 0 || n > len(fields) {
			return nil, nil
		}
		*list, fields = fields[:n], fields[n:]
	}
	return b, nil
}

// End removes the record of the run.
func (w Worktree) End() error {
	if err := os.RemoveAll(w.begunPath()); err != nil {
		return fmt.Errorf("removing the record of the run: %w", err)
	}
	return nil
}
