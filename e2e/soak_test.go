//go:build linux

package e2e

import (
	"cmp"
	"context"
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
	"github.com/docker-ralph/docker-ralph/internal/testutil/slowlink"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// A loop that is disturbed at random moments.

var (
	soakTime = flag.Duration("soak", 0, "how long TestSoak and TestRemoteSoak disturb their loops, which are then left alone until all is done; 0 for 45 and 10 seconds")
	soakSeed = flag.Uint64("soak.seed", 1, "what happens in these tests and in which order; 0 chooses a seed, which is printed")
)

const (
	// soakPerTask is the number of faults per task and minute: more than there is
	// time for.
	soakPerTask = 4
	// soakLimit bounds a build that is not disturbed any more.
	soakLimit = 10 * time.Minute
)

// soak is a loop that is disturbed.
type soak struct {
	t            *testing.T
	w            *world
	engine       *ownEngine     // of TestSoak
	link         *slowlink.Link // of TestRemoteSoak
	linkMu       sync.Mutex     // held while connections are interrupted
	logins       string         // where ssh has its sockets
	api          *client.Client
	lasts        time.Duration
	pause        time.Duration // the mean one between two disturbances from outside
	agentFaults  []agentFault
	disturbances []disturbance

	name     string // of the sandbox
	cache    string // folder on the host that no disturbance reaches: GOCACHE in the sandbox
	rnd      *rand.Rand
	end      time.Time // of the disturbances
	tasks    []task
	faults   map[string][][]agentFault // by task and run: what its agents do
	engineMu sync.RWMutex              // held while the engine is restarted
	counts   map[string]int            // of disturbances from outside

	users  sync.WaitGroup // commands beside the loop
	mu     sync.Mutex
	build  *process // that runs now; nil if none does
	notes  []string // what happened, and what commands said
	builds int      // that ended before their loop
}

// TestSoak disturbs a loop at random moments: by its agents and from outside, the
// engine included. Undisturbed afterwards, every task is done exactly once. Which
// disturbances there are, and in which order, is the seed's choice; what the loop is
// doing when one comes is not.
func TestSoak(t *testing.T) {
	if *soakTime == 0 {
		onlyInMatrix(t)
	}
	t.Parallel()
	e := newOwnEngine(t, enginesFor(t)[0])
	s := &soak{
		t: t, w: newWorld(t, e.Engine), engine: e, api: e.Client(t), lasts: cmp.Or(*soakTime, 45*time.Second), pause: 800 * time.Millisecond,
		agentFaults: agentFaults, disturbances: disturbances,
	}
	if e.Name == "debian2" {
		// Docker 20.10 that starts a process in the same moment never answers again.
		s.disturbances = slices.DeleteFunc(slices.Clone(disturbances), func(d disturbance) bool { return d.name == pausedFault })
	}
	s.run(50)
}

// run disturbs a loop with so many tasks, and asserts that each is done once.
func (s *soak) run(tasks int) {
	t := s.t
	t.Helper()
	seed := cmp.Or(*soakSeed, rand.Uint64())
	s.rnd, s.faults, s.counts = rand.New(rand.NewPCG(seed, seed)), map[string][][]agentFault{}, map[string]int{}
	t.Cleanup(func() {
		if t.Failed() && !testing.Verbose() { // or else it was logged when it happened
			t.Logf("repeat with -soak %s -soak.seed %d\n%s", s.lasts, seed, strings.Join(s.notes, "\n"))
		}
	})
	s.w.prepareForFaults(t)
	s.w.setenv("RALPH_MAX_FAILURES", "0")
	s.w.ok(t, "shell", "--", "true") // it takes longer to create the sandbox than to use it
	began := time.Now()
	s.plan(tasks)
	s.name = s.w.sandbox(t).Name
	s.findCache()
	if s.link != nil {
		s.publishCommits()
	}

	ctx, cancel := context.WithDeadline(t.Context(), s.end)
	defer cancel()
	var building sync.WaitGroup
	building.Go(func() {
		for ctx.Err() == nil && !s.buildOnce() {
			s.unblock()
		}
		cancel() // there is nothing to disturb any more
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
func (s *soak) plan(tasks int) {
	s.end = time.Now().Add(s.lasts)
	each := soakPerTask * max(1, int(s.lasts.Minutes()))
	for i := range tasks {
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
		m := s.agentFaults[draw(s.rnd, s.agentFaults, func(m agentFault) int { return m.weight })]
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
	s.cache = filepath.Join(res.Volume.Mountpoint, s.w.insideUID(), "go", "build")
}

// disturb does one thing after the other.
func (s *soak) disturb(ctx context.Context) {
	for n := 1; ; n++ {
		d := s.disturbances[draw(s.rnd, s.disturbances, func(d disturbance) int { return d.weight })]
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(s.rnd.Int64N(2 * int64(s.pause)))):
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
	s.linkMu.Lock()
	build := start(s.t, cmd)
	s.linkMu.Unlock()
	s.engineMu.RUnlock()
	s.setBuild(build)
	select {
	case <-build.done:
	case <-time.After(soakLimit + s.lasts):
		s.logf("build takes too long and is killed")
		build.signalGroup(syscall.SIGKILL)
		<-build.done
	}
	s.setBuild(nil)
	out := said.String()
	s.logf("build ended with exit code %d\n%s", build.code, out)
	if build.code > 128 || strings.Contains(out, "running in the background") || strings.Contains(out, "lost the connection to the engine") {
		s.leaveNoLoop() // it may go on alone
	}
	if s.link != nil && strings.Contains(out, "your branch and the sandbox's have diverged") { // an agent has amended a commit
		s.logf("%s", run(s.t, s.w.command("git", "reset", "--hard", "refs/ralph/"+s.name+"/main")).stderr)
	}
	return build.code == 0 && strings.Contains(out, "All tasks complete")
}

// leaveNoLoop ends a loop that goes on without its command, or waits for its end.
func (s *soak) leaveNoLoop() {
	if s.link != nil {
		s.linkMu.Lock()
		defer s.linkMu.Unlock()
		if s.builds++; s.builds%2 == 0 {
			s.docker("ralph", "attach")
		}
	}
	s.docker("ralph", "stop", "--now")
}

// unblock gives tasks another chance that have failed three times in a row.
func (s *soak) unblock() {
	for id, status := range s.w.statuses(s.t) {
		if status == "blocked" {
			s.docker("ralph", "task", "update", id, "--status", "open")
		}
	}
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
