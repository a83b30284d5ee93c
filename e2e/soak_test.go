//go:build linux

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

var (
	soakTime = flag.Duration("soak", 15*time.Second, "how long TestSoak disturbs its loop, which then works on to its end")
	soakSeed = flag.Uint64("soak.seed", 1, "what TestSoak does, in which order and after which pauses; 0 chooses a seed, which is printed")
)

const (
	// soakTasks is how many tasks a long soak has; a short one has one for each
	// second, so that two busy cores work through them within a minute.
	soakTasks = 50
	// soakPause is the mean time between two disturbances: a loop that never gets
	// a task done shows nothing.
	soakPause = 1500 * time.Millisecond
	// soakPatience bounds a build that is not disturbed any more.
	soakPatience = 3 * time.Minute
)

// byAgent is what agents do in the first run of a task, before they do it. It lacks
// what nothing puts right if the loop is killed before it has: tasks deleted with
// ralph task, a database without permissions.
var byAgent = []struct{ name, step string }{
	{"backlog and logs removed", "rm -rf .ralph"},
	{"git clean", "git clean -fdxq"},
	{"database truncated", ": >.ralph/tasks.db"},
	{"garbage as database", "head -c 65536 /dev/urandom >.ralph/tasks.db"},
	{switched, "git checkout -q -b side-$(date +%s%N)"},
	{"no branch", "git checkout -q --detach"},
	{"index locked", `: >"$(git rev-parse --git-path index.lock)"`},
	{"process limit", "for i in $(seq 300); do sleep 300 & done"},
	{"daemon left", "setsid sleep 300 >/dev/null 2>&1 &"},
	{"everything killed", "kill -9 -1"},
	{"failure", "exit 1"},
}

const switched = "another branch"

// disturbance is something that happens to a loop from one moment to the next.
type disturbance struct {
	name   string
	weight int
	do     func(s *soak)
}

var disturbances = []disturbance{
	inside("agent killed", 6, killInside("[_]shell-agent")),
	inside("loop killed", 4, killInside("ralph [b]uild ")),
	inside("everything killed", 2, "kill -9 -1"),
	toSandbox("sandbox killed", 3, "kill"),
	toSandbox("sandbox stopped", 1, "stop", "-t", "1"),
	toSandbox("sandbox restarted", 2, "restart", "-t", "0"),
	toSandbox("sandbox removed", 1, "rm", "-f"),
	{"sandbox paused", 2, func(s *soak) {
		s.docker("pause", s.name)
		<-time.After(soakPause / 5)
		s.docker("unpause", s.name)
	}},
	{"proxy killed", 2, func(s *soak) { s.docker("kill", s.name+".egress") }},
	{"proxy removed", 1, func(s *soak) { s.docker("rm", "-f", s.name+".egress") }},
	toPlugin(3, syscall.SIGKILL), toPlugin(1, syscall.SIGINT), toPlugin(1, syscall.SIGTERM), toPlugin(1, syscall.SIGHUP),
	byUser(2, "task", "list"), byUser(1, "ls"), byUser(1, "stop"), byUser(1, "stop", "--now"),
}

// inside is a disturbance by a script in the sandbox.
func inside(name string, weight int, script string) disturbance {
	return disturbance{name, weight, func(s *soak) {
		s.docker("exec", "-u", fmt.Sprintf("%d:%d", s.w.uid, s.w.gid), s.name, "sh", "-c", script)
	}}
}

// toSandbox is a disturbance by a command of docker.
func toSandbox(name string, weight int, args ...string) disturbance {
	return disturbance{name, weight, func(s *soak) { s.docker(append(args, s.name)...) }}
}

// toPlugin is a signal to the docker command that runs the loop.
func toPlugin(weight int, sig syscall.Signal) disturbance {
	return disturbance{"plugin gets " + sig.String(), weight, func(s *soak) { s.signal(sig) }}
}

// byUser is another command of the user.
func byUser(weight int, args ...string) disturbance {
	return disturbance{"docker ralph " + strings.Join(args, " "), weight, func(s *soak) {
		s.docker(append([]string{"ralph"}, args...)...)
	}}
}

// soak is a loop that is disturbed.
type soak struct {
	t     *testing.T
	w     *world
	name  string // of the sandbox
	began time.Time
	rnd   *rand.Rand
	tasks []task
	does  map[string]string // what the agent does in the first run of a task

	mu    sync.Mutex
	build *exec.Cmd       // that runs now; nil if none does
	notes []string        // what happened, and what commands said
	done  map[string]bool // tasks that a log has as done
}

// TestSoak disturbs a loop at random moments, by its agents and from outside. When
// it is let alone afterwards, every task is done exactly once. Which disturbances
// there are is the seed's choice; what the loop is at when one comes is not.
func TestSoak(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*soakSeed, rand.Uint64())
	s := &soak{t: t, w: newSmallWorld(t, where(t)[0]), rnd: rand.New(rand.NewPCG(seed, seed)), does: map[string]string{}, done: map[string]bool{}}
	t.Cleanup(func() {
		switch {
		case testing.Verbose(): // it was logged when it happened
		case t.Failed():
			t.Logf("repeat with -soak %s -soak.seed %d\n%s", *soakTime, seed, strings.Join(s.notes, "\n"))
		}
	})
	s.plan()
	s.name, s.began = s.w.sandbox(t).Name, time.Now()

	ctx, cancel := context.WithTimeout(t.Context(), *soakTime)
	defer cancel()
	var disturbing sync.WaitGroup
	disturbing.Go(func() { s.disturb(ctx) })
	for ctx.Err() == nil && !s.buildOnce() {
	}
	cancel() // there is nothing to disturb any more
	disturbing.Wait()
	s.note("nothing disturbs it any more")
	s.comesToRest()
	s.holds(t)
}

// plan makes tasks that each make a file and commit it. In its first run, each
// other one does something else before.
func (s *soak) plan() {
	n := min(soakTasks, max(10, int(soakTime.Seconds())))
	work := soakTime.Seconds() / float64(n) / 4 // the disturbances are to last as long as the tasks
	for i := range n {
		id := fmt.Sprintf("t%02d", i)
		tk := task{ID: id, Title: "Task " + id, Priority: i}
		if a := byAgent[s.rnd.IntN(len(byAgent))]; s.rnd.IntN(2) == 0 {
			// A cache outlives everything else of a sandbox.
			tk.Steps = []string{fmt.Sprintf("test -e \"$GOCACHE/%[1]s\" && exit; : >\"$GOCACHE/%[1]s\"\n%[2]s\ntrue", id, a.step)}
			s.does[id] = a.name
		}
		tk.Steps = append(tk.Steps, fmt.Sprintf("sleep %.2f; git cat-file -e HEAD:%[2]s 2>/dev/null || { echo %[2]s >%[2]s && git add %[2]s && git commit -qm %[2]s -- %[2]s; }", work, id))
		s.tasks = append(s.tasks, tk)
	}
	s.w.plan(s.t, s.tasks...)
}

// disturb does one thing after the other.
func (s *soak) disturb(ctx context.Context) {
	var ballot []disturbance
	for _, d := range disturbances {
		for range d.weight {
			ballot = append(ballot, d)
		}
	}
	for n := 1; ; n++ {
		d := ballot[s.rnd.IntN(len(ballot))]
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(s.rnd.Int64N(2 * int64(soakPause)))):
		}
		s.note("%d: %s", n, d.name)
		d.do(s)
	}
}

// buildOnce starts the loop, and afterwards does what it says should be done. It
// reports whether the loop has found everything done.
func (s *soak) buildOnce() bool {
	cmd := s.w.docker("ralph", "build")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 10*time.Second
	if err := cmd.Start(); err != nil {
		s.note("build: %v", err)
		return false
	}
	s.setBuild(cmd)
	limit := time.AfterFunc(soakPatience+*soakTime, func() {
		s.note("build takes too long and is killed")
		s.signal(syscall.SIGKILL)
	})
	_ = cmd.Wait() // its exit code is noted
	limit.Stop()
	s.setBuild(nil)
	s.note("build ended with %s\n%s", cmd.ProcessState, out.String())
	said := out.String()
	if cmd.ProcessState.ExitCode() < 0 {
		s.docker("ralph", "stop", "--now") // the loop goes on without it
	}
	s.readLogs(said)
	if strings.Contains(said, `"docker ralph task restore"`) {
		s.docker("ralph", "task", "restore")
	}
	return cmd.ProcessState.ExitCode() == 0 && strings.Contains(said, "All tasks complete")
}

// readLogs remembers what is done by the logs, and by what the loop has said: agents
// remove the logs of loops that have ended.
func (s *soak) readLogs(said string) {
	for id, runs := range s.w.logged(s.t, s.began) {
		s.done[id] = s.done[id] || slices.ContainsFunc(runs, func(r loggedRun) bool {
			// A run that has done its task and damaged the backlog counts as failed.
			return r.Outcome == "done" || r.Outcome == "failed"
		})
	}
	for _, tk := range s.tasks {
		s.done[tk.ID] = s.done[tk.ID] || strings.Contains(said, "Task "+tk.ID+" is done: ")
	}
}

func (s *soak) setBuild(cmd *exec.Cmd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.build = cmd
}

func (s *soak) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.build != nil {
		_ = syscall.Kill(-s.build.Process.Pid, sig) // it may have ended
	}
}

// docker runs a command whose success nobody expects.
func (s *soak) docker(args ...string) {
	cmd := s.w.docker(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 10*time.Second
	if err := cmd.Start(); err != nil {
		s.note("docker %s: %v", args[0], err)
		return
	}
	defer time.AfterFunc(patience, func() {
		s.note("docker %s takes too long and is killed", strings.Join(args, " "))
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}).Stop()
	_ = cmd.Wait()
	if args[0] == "ralph" || !cmd.ProcessState.Success() {
		s.note("docker %s: %s\n%s", strings.Join(args, " "), cmd.ProcessState, strings.TrimSpace(out.String()))
	}
}

func (s *soak) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := time.Now().Format("04:05.000 ") + fmt.Sprintf(format, args...)
	s.notes = append(s.notes, line)
	if testing.Verbose() {
		s.t.Log(line)
	}
}

// comesToRest starts the loop until everything is done. A task may have failed
// three times in a row: what it was parked for is over.
func (s *soak) comesToRest() {
	for range 5 {
		if s.buildOnce() {
			return
		}
		for id, status := range s.w.statuses(s.t) {
			if status == "blocked" {
				s.docker("ralph", "task", "update", id, "--status", "open")
			}
		}
	}
}

// holds is what has to hold whatever has happened.
func (s *soak) holds(t *testing.T) {
	t.Helper()
	statuses := s.w.statuses(t)
	assert.Check(t, is.Len(statuses, len(s.tasks)))
	for _, tk := range s.tasks {
		id := tk.ID
		assert.Check(t, is.Equal(statuses[id], "done"), id)
		onBranch := s.commits(t, "main", id)
		anywhere := s.commits(t, "--all", id)
		if s.does[id] == switched || s.does[id] == "no branch" {
			assert.Check(t, onBranch <= 1 && anywhere >= 1, "%s has %d commits on main, %d anywhere", id, onBranch, anywhere)
		} else {
			assert.Check(t, is.Equal(onBranch, 1), "commits of %s (%d anywhere)", id, anywhere)
		}
		assert.Check(t, s.done[id], "no log says that %s is done", id)
	}
	assert.Check(t, is.Equal(s.w.git(t, "status", "--porcelain"), ""))
	assert.Check(t, is.Equal(s.w.git(t, "rev-parse", "--abbrev-ref", "HEAD"), "main"))
	s.w.atRest(t)
	said := strings.Join(s.notes, "\n")
	for _, never := range []string{`"docker rm `, `"docker volume rm `, "panic: "} {
		assert.Check(t, !strings.Contains(said, never), never)
	}
}

// commits counts the commits that have made or changed a task's file: what a killed
// agent has left may be in the commit of another task.
func (s *soak) commits(t *testing.T, where, id string) int {
	t.Helper()
	return len(strings.Fields(s.w.git(t, "log", "--format=%h", where, "--", id)))
}
