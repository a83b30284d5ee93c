// Package dashboard shows sandboxes and their loops in a browser: a local server, and the same page
// as a standalone file.
//
// What it shows is written in sandboxes and untrusted. The page puts it into the document as text
// only, never as markup, and its content security policy allows no other script and no other host.
package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/watch"
)

const (
	// stateAge is how old the state of the sandboxes may be.
	stateAge = 2 * time.Second
	// maxEvents bounds the events of a loop on the page, in bytes.
	maxEvents = 4 << 20
	// maxOutput bounds the shown output of a run, in bytes.
	maxOutput = 256 << 10
	// maxMatches bounds the results of a search.
	maxMatches = 200
)

// source reads what the page shows.
type source struct {
	host    host.Host
	opts    watch.Options
	collect func(context.Context, host.Host, watch.Options) (watch.State, error)

	mu    sync.Mutex
	state watch.State
	at    time.Time // when it was complete: an engine may take long to answer
}

func newSource(h host.Host, all bool) *source {
	return &source{host: h, opts: watch.Options{All: all}, collect: watch.Collect}
}

// State returns the state of the sandboxes, which was complete at most [stateAge] ago.
func (s *source) State(ctx context.Context) (watch.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) < stateAge {
		return s.state, nil
	}
	state, err := s.collect(ctx, s.host, s.opts)
	if err == nil {
		s.state, s.at = state, time.Now()
	}
	return state, err
}

// loop is an open loop of the page.
type loop struct {
	watch.Log
	worktree watch.Worktree
	loop     watch.Loop
}

// open opens the log of a loop. Only keys of the state are valid: a request never contains a path.
func (s *source) open(ctx context.Context, key string) (loop, error) {
	state, err := s.State(ctx)
	if err != nil {
		return loop{}, err
	}
	return openIn(state, key)
}

// openIn opens the log of a loop of a state.
func openIn(state watch.State, key string) (loop, error) {
	w, l, err := state.Find(key)
	if err != nil {
		return loop{}, err
	}
	log, err := w.Open(l)
	return loop{log, w, l}, err
}

// backlog is a backlog on the page.
type backlog struct {
	Tasks []backlogs.Task `json:"tasks"` // nil if unknown
	Error string          `json:"error,omitempty"`
}

// backlogOf returns the backlog of a branch's newest loop, and none for an older one, which had
// another.
func (s *source) backlogOf(ctx context.Context, l loop) backlog {
	if l.worktree.Loops[0].Key != l.loop.Key {
		return backlog{}
	}
	tasks, err := l.worktree.Tasks(ctx, s.host)
	if err != nil {
		return backlog{Error: err.Error()}
	}
	return backlog{Tasks: tasks}
}

// output is the output of a run on the page.
type output struct {
	Run  int    `json:"run"`
	Text string `json:"text"`
	// Skipped says that the beginning is missing.
	Skipped bool `json:"skipped,omitempty"`
}

// outputOf returns the end of the output of a run.
func outputOf(l loop, run, limit int) (output, error) {
	text, skipped, err := watch.OutputOf(run).Next(l.Log, limit)
	return output{run, text, skipped}, err
}
