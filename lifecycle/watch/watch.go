// Package watch collects what sandboxes and their loops do: the sandboxes, the worktrees, and the
// loops in their logs. Everything in the logs is written inside sandboxes: it is untrusted, bounded
// and free of control sequences.
package watch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// State is the state of all sandboxes and loops.
type State struct {
	Time time.Time `json:"time"`
	// Worktrees are those with a sandbox or a loop, the current one first.
	Worktrees []Worktree `json:"worktrees"`
	// Warnings say what could not be read, each in one line.
	Warnings []string `json:"warnings,omitempty"`
}

// Worktree is a branch in a worktree.
type Worktree struct {
	Key    string `json:"key"` // identifies it, and does not contain its path
	Repo   string `json:"repo"`
	Branch string `json:"branch"`
	Root   string `json:"root"`
	Logs   string `json:"-"` // directory of the logs
	// Current marks the one of the command.
	Current bool `json:"current"`
	// Sandbox is nil if there is none, or if sandboxes could not be listed.
	Sandbox *manage.SandboxStatus `json:"sandbox"`
	// Loops are the logged ones, newest first.
	Loops []Loop `json:"loops"`
}

// Loop is a loop according to its log. Its strings have no control sequences.
type Loop struct {
	Key      string     `json:"key"`
	ID       string     `json:"id"` // name of its directory
	Mode     string     `json:"mode"`
	Agent    string     `json:"agent"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended"` // nil while it runs, and if it was killed
	Stop     string     `json:"stop,omitempty"`
	ExitCode *int       `json:"exit_code"`
	Error    string     `json:"error,omitempty"`
	Summary  string     `json:"summary,omitempty"`
	// Running reports that its process is alive. The state in Now counts only then.
	Running bool       `json:"running"`
	Now     runlog.Now `json:"now"`
}

// Options are the options of [Collect].
type Options struct {
	// All collects the sandboxes of this machine instead of this repository.
	All bool
}

// maxLoops is how many loops of a branch in a worktree are listed.
const maxLoops = 20

// Collect collects the state. An engine that does not answer is a warning.
func Collect(ctx context.Context, h host.Host, opts Options) (State, error) {
	state := State{Time: time.Now().UTC(), Worktrees: []Worktree{}}
	var warnings buffer
	h.Stderr = &warnings
	at, err := h.Here(ctx)
	if err != nil && !opts.All {
		return state, err
	}
	if !at.Inside && !opts.All {
		return state, gitrepo.ErrNotRepository
	}
	sandboxes, err := manage.Sandboxes(ctx, h, manage.ListOptions{All: opts.All})
	if err != nil {
		h.Warn(err)
	}
	if ctx.Err() != nil {
		return state, ctx.Err()
	}
	for i := range sandboxes {
		s := &sandboxes[i]
		if s.OtherClient != "" { // the loops of its worktree are unknown
			continue
		}
		state.Worktrees = append(state.Worktrees, Worktree{Repo: s.Repo, Branch: s.Branch, Root: s.Worktree, Logs: s.Logs, Current: s.Current, Sandbox: s})
	}
	if at.Inside {
		state.addWorktrees(ctx, h, at.Worktree)
	}
	state.addFormer(h)
	state.addLoops()
	for line := range strings.Lines(warnings.text.String()) {
		state.Warnings = append(state.Warnings, strings.TrimPrefix(termsafe.Line(line), "Warning: "))
	}
	return state, nil
}

// buffer is safe for concurrent use.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// addWorktrees adds the worktrees of a repository.
func (s *State) addWorktrees(ctx context.Context, h host.Host, wt gitrepo.Worktree) {
	repo, err := worktrees.Open(wt)
	var trees []worktrees.Tree
	if err == nil {
		trees, err = repo.List(ctx)
	}
	if err != nil {
		h.Warn(err)
	}
	s.add(h, Worktree{Repo: wt.Scope.Repo, Branch: wt.Scope.Branch, Root: wt.Root, Current: true})
	for _, t := range trees {
		if !t.Missing && t.Branch != "" && !t.Current { // RALPH_SCOPE_BRANCH can rename the current branch
			s.add(h, Worktree{Repo: wt.Scope.Repo, Branch: t.Branch, Root: t.Path})
		}
	}
}

func (s *State) add(h host.Host, w Worktree) {
	if !slices.ContainsFunc(s.Worktrees, func(other Worktree) bool { return other.Root == w.Root && other.Branch == w.Branch }) {
		w.Logs = h.LogsOf(lifecycle.Sandbox{Root: w.Root, Scope: gitrepo.Scope{Repo: w.Repo, Branch: w.Branch}})
		s.Worktrees = append(s.Worktrees, w)
	}
}

// addFormer adds the branches that were checked out in the worktrees before.
func (s *State) addFormer(h host.Host) {
	owners, err := h.Owners()
	if err != nil {
		h.Warn(err)
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		o := owners[name]
		if slices.ContainsFunc(s.Worktrees, func(w Worktree) bool { return w.Root == o.Root }) {
			s.add(h, Worktree{Repo: o.Scope.Repo, Branch: o.Scope.Branch, Root: o.Root})
		}
	}
}

// addLoops reads the logs.
func (s *State) addLoops() {
	for i := range s.Worktrees {
		s.Worktrees[i].fill()
	}
	s.Worktrees = slices.DeleteFunc(s.Worktrees, func(w Worktree) bool { return w.Sandbox == nil && len(w.Loops) == 0 && !w.Current })
	slices.SortFunc(s.Worktrees, func(a, b Worktree) int {
		if a.Current != b.Current {
			if a.Current {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Repo, b.Repo), cmp.Compare(a.Branch, b.Branch), cmp.Compare(a.Root, b.Root))
	})
}

func (w *Worktree) fill() {
	w.Key, w.Loops = key(w.Root, w.Branch), []Loop{}
	for _, log := range runlog.Recent(w.Logs, maxLoops, runlog.Any) {
		loop := Loop{
			Key: key(w.Root, w.Branch, log.ID), ID: log.ID, Mode: termsafe.Line(log.Mode), Agent: termsafe.Line(log.Agent), Started: log.Started,
			Stop: termsafe.Line(log.Stop), Error: termsafe.Line(log.Error), Summary: termsafe.Line(log.Summary), Now: log.Now,
		}
		if log.Last != nil {
			loop.Now.N = max(loop.Now.N, log.Last.N)
		}
		if !log.Ended.IsZero() {
			loop.Ended, loop.ExitCode = &log.Ended, &log.ExitCode
			if w.Sandbox != nil {
				loop.end(w.Sandbox.Loop)
			}
		} else if w.Sandbox != nil && w.Sandbox.Loop != nil {
			loop.Running = w.Sandbox.Loop.Running && w.Sandbox.Loop.ID == termsafe.Line(loop.ID)
		}
		w.Loops = append(w.Loops, loop)
	}
}

// end takes over how the sandbox's last loop has ended for the user, which its log does not say.
func (l *Loop) end(of *manage.LoopStatus) {
	if of != nil && !of.Running && of.ExitCode != nil && of.ID == termsafe.Line(l.ID) {
		l.Stop, l.ExitCode, l.Error = of.Stop, of.ExitCode, of.Error
	}
}

func key(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// ErrNotFound is returned for a loop that is not in the state.
var ErrNotFound = errors.New("no such loop")

// Find returns a loop by its key.
func (s State) Find(key string) (Worktree, Loop, error) {
	for _, w := range s.Worktrees {
		for _, l := range w.Loops {
			if l.Key == key {
				return w, l, nil
			}
		}
	}
	return Worktree{}, Loop{}, ErrNotFound
}

// Tasks returns the tasks of the worktree's backlog; nil without one.
func (w Worktree) Tasks(ctx context.Context, h host.Host) ([]backlogs.Task, error) {
	scope := gitrepo.Scope{Repo: w.Repo, Branch: w.Branch}
	name, err := h.SandboxName(gitrepo.Worktree{Root: w.Root, Scope: scope})
	if err != nil {
		return nil, nil //nolint:nilerr // without a scope there is no backlog
	}
	return backlogs.Tasks(ctx, h, name, scope)
}
