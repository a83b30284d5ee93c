//go:build linux

package e2e

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// A loop that is disturbed at random moments.

var (
	soakTime = flag.Duration("soak", 45*time.Second, "how long TestSoak disturbs its loop, which is then left alone until all is done")
	soakSeed = flag.Uint64("soak.seed", 1, "what happens in TestSoak and in which order; 0 chooses a seed, which is printed")
)

const (
	soakTasks = 50
	// soakPause is the mean time between two disturbances from outside.
	soakPause = 800 * time.Millisecond
	// soakPerTask is how much befalls each task from its agents in a minute: more than
	// there is time for.
	soakPerTask = 4
	// soakLimit bounds a build that is not disturbed any more.
	soakLimit = 3 * time.Minute
)

// soak is a loop that is disturbed, on its own engine.
type soak struct {
	t        *testing.T
	w        *world
	engine   *ownEngine
	api      *client.Client
	name     string // of the sandbox
	cache    string // folder on the host that no disturbance reaches: GOCACHE in the sandbox
	rnd      *rand.Rand
	end      time.Time // of the disturbances
	tasks    []task
	faults   map[string][][]agentFault // by task and run: what its agents do
	engineMu sync.RWMutex              // held while the engine is restarted
	counts   map[string]int            // of disturbances from outside

	users    sync.WaitGroup // commands beside the loop
	mu       sync.Mutex
	build    *process // that runs now; nil if none does
	notes    []string // what happened, and what commands said
	restores int      // of the backlog from copies on the host
}

// TestSoak disturbs a loop at random moments: by its agents and from outside, the
// engine included. Undisturbed afterwards, every task is done exactly once. Which
// disturbances there are, and in which order, is the seed's choice; what the loop is
// doing when one comes is not.
func TestSoak(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*soakSeed, rand.Uint64())
	e := newOwnEngine(t, enginesFor(t)[0])
	s := &soak{
		t: t, w: newFaultWorld(t, e.Engine), engine: e, api: e.Client(t),
		rnd: rand.New(rand.NewPCG(seed, seed)), faults: map[string][][]agentFault{}, counts: map[string]int{},
	}
	t.Cleanup(func() {
		if t.Failed() && !testing.Verbose() { // or else it was logged when it happened
			t.Logf("repeat with -soak %s -soak.seed %d\n%s", *soakTime, seed, strings.Join(s.notes, "\n"))
		}
	})
	began := time.Now()
	s.w.setenv("RALPH_MAX_FAILURES", "0")
	s.plan()
	s.name = s.w.sandbox(t).Name
	s.findCache()

	ctx, cancel := context.WithDeadline(t.Context(), s.end)
	defer cancel()
	var building sync.WaitGroup
	building.Go(func() {
		for ctx.Err() == nil && !s.buildOnce() {
			s.unblock()
		}
		cancel() // there is nothing to disturb any more
	})
	eventually(t, func() error { // before that, there is no copy of the backlog
		if copies, _ := filepath.Glob(filepath.Join(s.w.config, "ralph", "backlogs", s.name, "*.json")); len(copies) == 0 {
			return errors.New("the host has no copy of the backlog")
		}
		return nil
	})
	s.disturb(ctx)
	disturbed := time.Since(began)
	building.Wait()
	s.users.Wait()
	s.logf("nothing disturbs it any more")
	s.finish()
	t.Logf("seed %d: %s", seed, s.summary(disturbed, time.Since(began)))
	s.assertInvariants()
}

// plan makes tasks that each make a file and commit it. In its first runs a task
// suffers something else before, as long as the disturbances last.
func (s *soak) plan() {
	s.end = time.Now().Add(*soakTime)
	each := soakPerTask * max(1, int(soakTime.Minutes()))
	for i := range soakTasks {
		id := fmt.Sprintf("t%02d", i)
		var cases strings.Builder
		for n := range each {
			run, step := s.drawRun()
			s.faults[id] = append(s.faults[id], run)
			fmt.Fprintf(&cases, "%d) id=%s-%d\n%s\n;;\n", n, id, n, step)
		}
		suffers := fmt.Sprintf("test $(date +%%s) -lt %d || exit 0\nn=$(cat \"$GOCACHE/%[2]s\" 2>/dev/null | wc -c); echo -n x >>\"$GOCACHE/%[2]s\"\ncase $n in\n%[3]sesac; true",
			s.end.Unix(), id, cases.String())
		does := fmt.Sprintf("sleep 0.1; git cat-file -e HEAD:%[1]s 2>/dev/null || { echo %[1]s >%[1]s && git add %[1]s && git commit -qm %[1]s -- %[1]s; }", id)
		s.tasks = append(s.tasks, task{ID: id, Title: "Task " + id, Priority: i, Steps: []string{suffers, does}})
	}
	s.w.plan(s.t, s.tasks...)
}

// drawRun chooses what an agent does in one run: one thing, or two, or one and its
// end with its loop, which has no time to repair anything.
func (s *soak) drawRun() (run []agentFault, step string) {
	for {
		m := agentFaults[draw(s.rnd, agentFaults, func(m agentFault) int { return m.weight })]
		run, step = append(run, m), step+m.step
		switch {
		case m.last || len(run) == 2:
			return run, step
		case s.rnd.IntN(6) == 0:
			return run, step + "\nkill -9 -1"
		}
		step += "\n"
	}
}

// findCache finds the volume with the caches of the repository: it outlives
// everything else of a sandbox.
func (s *soak) findCache() {
	res, err := s.api.VolumeInspect(s.t.Context(), container.CacheVolume(s.w.repo), client.VolumeInspectOptions{})
	assert.NilError(s.t, err)
	s.cache = filepath.Join(res.Volume.Mountpoint, fmt.Sprint(s.w.uid), "go", "build")
}

// disturb does one thing after the other.
func (s *soak) disturb(ctx context.Context) {
	possible := slices.DeleteFunc(slices.Clone(disturbances), func(d disturbance) bool {
		// Docker 20.10 that starts a process in the same moment never answers again.
		return d.name == pausedFault && s.engine.Name == "debian2"
	})
	for n := 1; ; n++ {
		d := possible[draw(s.rnd, possible, func(d disturbance) int { return d.weight })]
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(s.rnd.Int64N(2 * int64(soakPause)))):
		}
		s.logf("%d: %s", n, d.name)
		s.counts[d.name]++
		d.do(s)
	}
}

// draw chooses one of several by their weights.
func draw[T any](rnd *rand.Rand, all []T, weight func(T) int) int {
	total := 0
	for _, one := range all {
		total += weight(one)
	}
	left := rnd.IntN(total)
	for i, one := range all {
		if left -= weight(one); left < 0 {
			return i
		}
	}
	panic("unreachable")
}

// buildOnce starts the loop, and afterwards does what it says should be done. It
// reports whether the loop has found everything done.
func (s *soak) buildOnce() bool {
	var said output.Buffer
	cmd := s.w.docker("ralph", "build")
	cmd.Stdout, cmd.Stderr = &said, &said
	s.engineMu.RLock() // without an engine it would end at once, again and again
	build := start(s.t, cmd)
	s.engineMu.RUnlock()
	s.setBuild(build)
	select {
	case <-build.done:
	case <-time.After(soakLimit + *soakTime):
		s.logf("build takes too long and is killed")
		build.signalGroup(syscall.SIGKILL)
		<-build.done
	}
	s.setBuild(nil)
	out := said.String()
	s.logf("build ended with exit code %d\n%s", build.code, out)
	if build.code > 128 || strings.Contains(out, "running in the background") {
		s.docker("ralph", "stop", "--now") // the loop may go on alone
	}
	s.restores += strings.Count(out, "restored it from the copy of ")
	if build.code == 128+int(syscall.SIGKILL) {
		s.restores++ // it may have been about to say so
	}
	if strings.Contains(out, `"docker ralph task restore"`) {
		s.restores++
		s.docker("ralph", "task", "restore")
	}
	return build.code == 0 && strings.Contains(out, "All tasks complete")
}

// unblock gives tasks another chance that have failed three times in a row.
func (s *soak) unblock() {
	s.docker("exec", "-u", fmt.Sprintf("%d:%d", s.w.uid, s.w.gid), "-w", s.w.repo, s.name, "sh", "-c", "for id in $(ralph task list --markdown | awk '/^id: / { id = $2 } /^status: blocked/ { print id }'); do ralph task update $id --status open; done")
}

func (s *soak) setBuild(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.build = p
}

func (s *soak) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.build != nil {
		s.build.signalGroup(sig)
	}
}

// docker runs a command that may fail.
func (s *soak) docker(args ...string) {
	var said output.Buffer
	cmd := s.w.docker(args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	p := start(s.t, cmd)
	select {
	case <-p.done:
	case <-time.After(timeout):
		s.logf("docker %s takes too long and is killed", strings.Join(args, " "))
		p.signalGroup(syscall.SIGKILL)
		<-p.done
	}
	s.logf("docker %s: exit code %d\n%s", strings.Join(args, " "), p.code, strings.TrimSpace(said.String()))
}

func (s *soak) logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := time.Now().Format("04:05.000 ") + fmt.Sprintf(format, args...)
	s.notes = append(s.notes, line)
	if testing.Verbose() {
		s.t.Log(line)
	}
}

// finish starts the loop until everything is done.
func (s *soak) finish() {
	for range 5 {
		if s.buildOnce() {
			return
		}
		s.unblock()
	}
}

// summary says how much has happened.
func (s *soak) summary(disturbed, all time.Duration) string {
	agents, byAgents := map[string]int{}, 0
	for id, runs := range s.faults {
		marks, _ := os.ReadFile(filepath.Join(s.cache, id)) // it may not have come to it
		for _, m := range slices.Concat(runs[:min(len(marks), len(runs))]...) {
			agents[m.name]++
			byAgents++
		}
	}
	outside := 0
	for _, n := range s.counts {
		outside += n
	}
	return fmt.Sprintf("%d disturbances in %.0f s (%d by agents, %d from outside), %d tasks done after %.0f s\nby agents: %s\nfrom outside: %s",
		byAgents+outside, disturbed.Seconds(), byAgents, outside, len(s.tasks), all.Seconds(), list(agents), list(s.counts))
}

func list(counts map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(all, ", ")
}
