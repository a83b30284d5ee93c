package manage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// LoopRecord describes a loop of which there is a log. Its names in JSON are part of the
// command's interface.
type LoopRecord struct {
	ID       string     `json:"id"`
	Command  string     `json:"command"`
	Repo     string     `json:"repo"`
	Branch   string     `json:"branch"`
	Agent    string     `json:"agent"`
	Worktree string     `json:"worktree"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended"` // nil for a loop that runs or was killed
	Stop     string     `json:"stop"`
	ExitCode *int       `json:"exit_code"`
	Spent

	runs []runlog.Iteration // the last one may be unfinished
}

// Spent is what runs have used and done.
type Spent struct {
	Runs    int     `json:"runs"`
	Done    int     `json:"done"` // tasks
	Commits int     `json:"commits"`
	Seconds float64 `json:"seconds"`
	Tokens  int64   `json:"tokens"`
	CostUSD float64 `json:"cost_usd"`
	// Estimated says that a part of the cost is; Unknown counts the runs without a cost.
	Estimated bool `json:"cost_estimated"`
	Unknown   int  `json:"runs_without_cost"`
}

func (s *Spent) add(it runlog.Iteration) {
	s.Runs++
	s.Done += len(it.Done)
	s.Commits += max(0, it.Commits)
	s.Seconds += max(0, it.Seconds)
	if it.Tokens != nil {
		s.Tokens += max(0, it.Tokens.Total())
	}
	if it.CostUSD == nil {
		s.Unknown++
		return
	}
	s.CostUSD += max(0, *it.CostUSD)
	s.Estimated = s.Estimated || it.CostEstimated
}

// Loops lists the loops of all branches of this repository, or, with all, of all repositories on this machine, newest
// first. Their logs are from sandboxes: names are safe for a terminal, and numbers are not to be trusted.
func Loops(ctx context.Context, h host.Host, all bool) ([]LoopRecord, error) {
	found, err := loopScopes(ctx, h, all)
	if err != nil {
		return nil, err
	}
	var list []LoopRecord
	for _, s := range found {
		for i, log := range runlog.History(h.LogsDir(s.name)) {
			if i == 0 {
				log.Loop = commits.EndOf(ctx, h, lifecycle.Sandbox{Name: s.name, Scope: s.owner.Scope, Root: s.owner.Root}, log.Loop)
			}
			list = append(list, newLoopRecord(s.owner, log))
		}
	}
	slices.SortStableFunc(list, func(a, b LoopRecord) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID)) })
	return list, nil
}

func newLoopRecord(of host.Owner, log runlog.Past) LoopRecord {
	r := LoopRecord{
		ID: termsafe.Line(log.ID), Command: termsafe.Line(log.Mode), Agent: termsafe.Line(log.Agent), Worktree: of.Root, Started: log.Started,
		Repo: termsafe.Line(cmp.Or(log.Repo, of.Scope.Repo)), Branch: termsafe.Line(cmp.Or(log.Branch, of.Scope.Branch)),
		Stop: termsafe.Line(log.Stop), Ended: known(log.Ended), runs: log.Runs,
	}
	if r.Ended != nil {
		r.ExitCode = &log.ExitCode
	}
	if now := log.Now; now.N > 0 && (len(r.runs) == 0 || now.N > r.runs[len(r.runs)-1].N) {
		r.runs = append(r.runs, runlog.Iteration{N: now.N, Started: now.Started, Tokens: now.Run.Tokens, CostUSD: now.Run.CostUSD})
	}
	for _, it := range r.runs {
		r.add(it)
	}
	return r
}

// loopScope is a scope that can have logs of loops.
type loopScope struct {
	name  string // of its sandbox
	owner host.Owner
}

// loopScopes lists the scopes of this repository, or with all those of all repositories, by name.
func loopScopes(ctx context.Context, h host.Host, all bool) ([]loopScope, error) {
	at, err := h.Here(ctx)
	switch {
	case err != nil && !all:
		return nil, err
	case !at.Inside && !all:
		return nil, hint.Wrap(gitrepo.ErrNotRepository, "list those of all sandboxes with --all")
	}
	owners, err := h.Owners()
	if err != nil {
		return nil, err
	}
	here := host.OwnerOf(at.Worktree)
	var found []loopScope
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		if o := owners[name]; all || o.Repository == here.Repository || o.Root == here.Root {
			found = append(found, loopScope{name, o})
		}
	}
	return found, nil
}

// CostRecord is what the loops of a branch have used on a day. Its names in JSON are part of the
// command's interface.
type CostRecord struct {
	Day    string `json:"day"` // local time, 2006-01-02
	Repo   string `json:"repo"`
	Branch string `json:"branch"`
	Spent
}

// Costs adds up what loops have used by the day on which a run has started, repository and
// branch, newest day first.
func Costs(loops []LoopRecord, zone *time.Location) []CostRecord {
	sums := map[[3]string]*CostRecord{}
	for _, l := range loops {
		for _, it := range l.runs {
			day := it.Started
			if day.IsZero() {
				day = l.Started
			}
			key := [3]string{day.In(zone).Format(time.DateOnly), l.Repo, l.Branch}
			if sums[key] == nil {
				sums[key] = &CostRecord{Day: key[0], Repo: l.Repo, Branch: l.Branch}
			}
			sums[key].add(it)
		}
	}
	list := make([]CostRecord, 0, len(sums))
	for _, c := range sums {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b CostRecord) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), cmp.Compare(a.Repo, b.Repo), cmp.Compare(a.Branch, b.Branch))
	})
	return list
}

// TotalCost adds up records.
func TotalCost(list []CostRecord) Spent {
	var t Spent
	for _, c := range list {
		t.Runs += c.Runs
		t.Done += c.Done
		t.Commits += c.Commits
		t.Seconds += c.Seconds
		t.Tokens += c.Tokens
		t.CostUSD += c.CostUSD
		t.Estimated = t.Estimated || c.Estimated
		t.Unknown += c.Unknown
	}
	return t
}
