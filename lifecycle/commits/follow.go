package commits

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// While an agent works, commits are fetched every syncEvery. A fetch that runs when the command ends may take
// fetchGrace.
const (
	syncEvery  = 30 * time.Second
	fetchGrace = 10 * time.Second
)

// follow fetches commits regularly until stop is called. fetch gets a commit that is not amended any more, and
// returns the last one, which the next fetch gets: what is there for so long is not amended. Results are reported
// at the end, because the agent uses the terminal.
func (g *Git) follow(ctx context.Context, fetch func(ctx context.Context, final string) (res gitsync.Result, tip string, err error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(syncEvery)
		defer tick.Stop()
		for final := ""; ; {
			select {
			case <-stopping:
				return
			case <-tick.C:
			}
			res, tip, err := fetch(ctx, final)
			tick.Reset(syncEvery)
			final = tip
			if err == nil { // the last fetch reports errors
				g.add(res)
			}
		}
	}()
	return func() {
		defer cancel()
		close(stopping)
		select {
		case <-stopped:
		case <-time.After(fetchGrace):
			cancel()
			<-stopped
		}
	}
}

// add adds up the results of several syncs. Refused refs are those of the last one.
func (g *Git) add(res gitsync.Result) gitsync.Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	res.Branch = cmp.Or(res.Branch, g.result.Branch)
	res.Commits += g.result.Commits
	if res.Others == nil { // nothing was fetched
		res.Others, res.Submodules, res.Kept = map[string]string{}, map[string]string{}, map[string]string{}
	}
	for name, ref := range g.result.Others {
		if _, later := res.Others[name]; !later {
			res.Others[name] = ref
			if path := g.result.Submodules[name]; path != "" {
				res.Submodules[name] = path
			}
		}
	}
	for ref, kept := range g.result.Kept {
		if _, later := res.Kept[ref]; !later {
			res.Kept[ref] = kept
		}
	}
	g.result = res
	return res
}

// Fetch fetches and reports the commits of a command. Another command may commit meanwhile;
// without one, none can start.
func (g *Git) Fetch(ctx context.Context, sb lifecycle.Sandbox) error {
	if g == nil {
		return nil
	}
	unlock, err := g.Host.TryLockAgents(sb.Name)
	if unlock != nil {
		defer unlock()
	}
	done := g.Host.ReportSlow("Fetching commits from sandbox " + sb.Name)
	idle := err == nil && unlock != nil && Idle(ctx, g.Driver, sb)
	res, err := g.fetchOrRepair(ctx, sb, idle)
	if err == nil && g.loop && !idle && !g.besideLoop(ctx, sb) {
		err = g.Repo.EndLoop(ctx)
	}
	done()
	g.reportRepairs()
	g.report(res) // with earlier results
	if isHeld(err) {
		return heldHint(sb, err)
	}
	if err != nil {
		return fmt.Errorf("commits stay in sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// besideLoop reports whether a loop runs in the sandbox.
func (g *Git) besideLoop(ctx context.Context, sb lifecycle.Sandbox) bool {
	running, err := g.Driver.Dispatches(ctx, sb)
	return err != nil || slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool {
		_, loop := host.LoopCommand(d.Command)
		return loop
	})
}

// report reports the results of all syncs so far, which the next report does not repeat.
func (g *Git) report(res gitsync.Result) {
	ReportSync(g.Host, g.add(res))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.result = gitsync.Result{}
}
