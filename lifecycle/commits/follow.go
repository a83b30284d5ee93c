package commits

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// While an agent works, commits are fetched after each of its runs, and every syncEvery. A fetch
// that runs when the command ends may take fetchGrace.
const (
	syncEvery  = 30 * time.Second
	fetchGrace = 10 * time.Second
)

// Event fetches commits, while they are followed, if the event of a loop in the sandbox is the end of a run.
func (g *Git) Event(e runlog.Event) {
	end, ended := e.Data.(*runlog.RunEnd)
	if g == nil || !ended {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.final = cmp.Or(end.Commit, g.final)
	select {
	case g.ran <- struct{}{}:
	default: // a fetch is due already
	}
}

// follow fetches commits after each run of an agent, as events tell, and regularly during a long one, until
// stop is called. fetch gets a commit that is not amended any more, and returns the last one. A loop may
// amend what none of its runs has ended with. Results are reported at the end, because the agent uses the
// terminal.
func (g *Git) follow(ctx context.Context, loop bool, fetch func(ctx context.Context, final string) (res gitsync.Result, tip string, err error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopping, stopped := make(chan struct{}), make(chan struct{})
	ran := g.listen()
	go func() {
		defer close(stopped)
		tick := time.NewTicker(syncEvery)
		defer tick.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-ran:
			case <-tick.C:
			}
			res, tip, err := fetch(ctx, g.lastFinal())
			tick.Reset(syncEvery)
			if !loop {
				g.setFinal(tip) // what is there for so long is not amended
			}
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

// listen returns a channel that gets the ends of runs.
func (g *Git) listen() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ran = make(chan struct{}, 1)
	return g.ran
}

func (g *Git) lastFinal() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.final
}

func (g *Git) setFinal(commit string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.final = commit
}

// followedLoops is how many loops can be recent.
const followedLoops = 5

// finalCommit returns the last commit of the logged runs that have ended.
func finalCommit(logs string) (commit string) {
	var latest time.Time
	for _, loop := range runlog.Recent(logs, followedLoops, runlog.Any) {
		log, err := runlog.Find(logs, func(l runlog.Loop) bool { return l.ID == loop.ID })
		if err != nil {
			continue // pruned meanwhile
		}
		for _, run := range log.Iterations() {
			ended := run.Started.Add(time.Duration(run.Seconds * float64(time.Second)))
			if run.Commit != "" && ended.After(latest) {
				commit, latest = run.Commit, ended
			}
		}
		log.Close()
	}
	return commit
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
	done := g.Host.ReportSlow("Fetching commits from the sandbox " + sb.Name)
	idle := err == nil && unlock != nil && Idle(ctx, g.Driver, sb)
	var res gitsync.Result
	if !idle && g.besideLoop(ctx, sb) {
		res, err = g.fetchBeside(ctx, sb)
	} else {
		res, err = g.fetchOrRepair(ctx, sb, idle)
	}
	done()
	g.reportRepairs()
	g.report(res) // with earlier results
	if isHeld(err) {
		return heldHint(sb, err)
	}
	if err != nil {
		return fmt.Errorf("commits stay in the sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// report reports the results of all syncs so far, which the next report does not repeat.
func (g *Git) report(res gitsync.Result) {
	ReportSync(g.Host, g.add(res))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.result = gitsync.Result{}
}
