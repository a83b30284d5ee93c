//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// What disturbs the loop of TestSoak, and what has to hold afterwards.

// agentFault is what an agent does in a run before it does its task.
type agentFault struct {
	name   string
	weight int
	step   string
	last   bool // its run ends with it
}

// agentFaults are the faults that agents cause. $id is unique.
var agentFaults = []agentFault{
	{name: "git clean", weight: 3, step: "git clean -fdxq"},
	{name: "all tasks deleted", weight: 2, step: "! ralph task delete --all --confirm"},
	{name: "another branch", weight: 3, step: "git checkout -q -b side-$id; " + commitOnBranch, last: true},
	{name: "no branch", weight: 2, step: "git checkout -q --detach; " + commitOnBranch, last: true},
	{name: "branch deleted", weight: 1, step: "git checkout -q --detach; git branch -qD main; exit 1", last: true},
	{name: "index locked", weight: 2, step: `: >.git/index.lock`},
	{name: "index broken", weight: 1, step: "echo garbage >.git/index"},
	{name: "git directory broken", weight: 2, step: afterFetch + "rm -rf .git/objects"},
	{name: "git directory emptied", weight: 1, step: afterFetch + "rm -rf .git/*"},
	{name: "process limit", weight: 2, step: "for i in $(seq 300); do sleep 300 & done", last: true},
	{name: "memory limit", weight: 1, step: "tail /dev/zero", last: true},
	{name: "daemon left", weight: 3, step: "setsid sleep 300 >/dev/null 2>&1 &"},
	{name: "daemon that restarts itself left", weight: 2, step: "echo 'sleep 0.01; setsid sh ~/daemon & exit' >~/daemon; setsid sh ~/daemon >/dev/null 2>&1 &"},
	{name: "everything killed", weight: 2, step: "kill -9 -1", last: true},
	{name: "failure", weight: 4, step: "exit 1", last: true},
}

const (
	// commitOnBranch commits something where it does not belong. The run fails: its
	// task's own commit belongs on the loop's branch.
	commitOnBranch = `echo $id >aside-$id; git add aside-$id; git commit -qm aside -- aside-$id && echo aside-$id >>"$GOCACHE/aside"; exit 1`
	// afterFetch waits until the host has all commits: those that only a broken git
	// directory had cannot come back. Without that, nothing is broken.
	afterFetch = `for i in $(seq 50); do git for-each-ref --format='%(objectname)' | GIT_OBJECT_DIRECTORY=$(cat .git/objects/info/alternates) git cat-file --batch-check | grep -q missing || break; sleep 0.1; done; test $i != 50 && `
)

// disturbance is something that happens to a loop from one moment to the next.
type disturbance struct {
	name   string
	weight int
	do     func(s *soak)
}

const pausedFault = "sandbox paused"

var disturbances = []disturbance{
	{"agent killed", 16, func(s *soak) { s.kill(isAgent) }},
	{"loop killed", 8, func(s *soak) { s.kill(isLoop) }},
	{"everything killed", 4, func(s *soak) { s.kill(isNotFirst) }},
	{"sandbox's first process killed", 4, func(s *soak) { s.kill(isFirst) }},
	{"sandbox stopped", 1, func(s *soak) {
		_, err := s.api.ContainerStop(s.t.Context(), s.name, client.ContainerStopOptions{Timeout: new(int)})
		s.logFailure(err)
	}},
	{"sandbox restarted", 3, func(s *soak) {
		_, err := s.api.ContainerRestart(s.t.Context(), s.name, client.ContainerRestartOptions{Timeout: new(int)})
		s.logFailure(err)
	}},
	{"sandbox removed", 2, func(s *soak) {
		_, err := s.api.ContainerRemove(s.t.Context(), s.name, client.ContainerRemoveOptions{Force: true})
		s.logFailure(err)
	}},
	{pausedFault, 2, func(s *soak) {
		_, err := s.api.ContainerPause(s.t.Context(), s.name, client.ContainerPauseOptions{})
		s.logFailure(err)
	}},
	{"proxy killed", 3, func(s *soak) {
		_, err := s.api.ContainerKill(s.t.Context(), s.name+".egress", client.ContainerKillOptions{})
		s.logFailure(err)
	}},
	{"proxy removed", 2, func(s *soak) {
		_, err := s.api.ContainerRemove(s.t.Context(), s.name+".egress", client.ContainerRemoveOptions{Force: true})
		s.logFailure(err)
	}},
	restartOfEngine(1, syscall.SIGKILL), restartOfEngine(1, syscall.SIGTERM),
	restartOfEngine(1, syscall.SIGKILL, "--live-restore"),
	pluginSignal(3, syscall.SIGKILL), pluginSignal(1, syscall.SIGINT), pluginSignal(1, syscall.SIGTERM), pluginSignal(1, syscall.SIGHUP),
	userCommand(2, "task", "list"), userCommand(1, "ls"), userCommand(1, "repair"), userCommand(1, "stop"), userCommand(1, "stop", "--now"),
	userCommand(2, "shell", "--", "true"), userCommand(1, "--recreate", "shell", "--", "true"),
}

// restartOfEngine is a signal to the engine's daemon, which is started again.
func restartOfEngine(weight int, sig syscall.Signal, args ...string) disturbance {
	name := strings.Join(append([]string{"engine gets " + sig.String() + " and is restarted"}, args...), " ")
	return disturbance{name, weight, func(s *soak) {
		s.engineMu.Lock()
		defer s.engineMu.Unlock()
		s.engine.end(s.t, sig)
		s.engine.start(s.t, args...)
	}}
}

// pluginSignal is a signal to the docker command that runs the loop.
func pluginSignal(weight int, sig syscall.Signal) disturbance {
	return disturbance{"plugin gets " + sig.String(), weight, func(s *soak) { s.signal(sig) }}
}

// userCommand is another command of the user.
func userCommand(weight int, args ...string) disturbance {
	return disturbance{"docker ralph " + strings.Join(args, " "), weight, func(s *soak) {
		s.users.Go(func() { s.docker(append([]string{"ralph"}, args...)...) })
	}}
}

// logFailure logs the error of a disturbance: the sandbox may be starting or stopping.
func (s *soak) logFailure(err error) {
	if err != nil {
		s.logf("%v", err)
	}
}

var (
	agentArgs = regexp.MustCompile(`\b_shell-agent\b`)
	loopArgs  = regexp.MustCompile(`^\S*ralph build\b`)
	initArgs  = regexp.MustCompile(`^\S*ralph _init\b`)
)

func isAgent(args string) bool    { return agentArgs.MatchString(args) }
func isLoop(args string) bool     { return loopArgs.MatchString(args) }
func isFirst(args string) bool    { return initArgs.MatchString(args) }
func isNotFirst(args string) bool { return !isFirst(args) }

// kill kills the processes in the sandbox whose command line matches, from outside:
// a process in it that does so would take longer than an agent works.
func (s *soak) kill(match func(args string) bool) {
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	c, err := s.api.ContainerInspect(ctx, s.name, client.ContainerInspectOptions{})
	if err != nil {
		s.logFailure(err)
		return
	}
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range groups {
		if group, err := os.ReadFile(file); err != nil || !bytes.Contains(group, []byte(c.Container.ID)) {
			continue // it has ended, or is somewhere else
		}
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && match(strings.ReplaceAll(string(args), "\x00", " ")) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// assertInvariants is what has to hold whatever has happened.
func (s *soak) assertInvariants() {
	t, w := s.t, s.w
	t.Helper()
	backlog := w.tasks(t)
	assert.Check(t, is.Len(backlog, len(s.tasks)))
	log := s.readLogs()
	onBranch := strings.Fields(w.git(t, "rev-list", "main"))
	// What a killed agent has left can be in the commit of another task, or be one.
	added := strings.Fields(w.git(t, "log", "--format=", "--name-only", "main"))
	slices.Sort(added)
	assert.Check(t, is.Len(slices.Compact(slices.Clone(added)), len(added)), "some file was committed more than once:\n%s",
		w.git(t, "log", "--format=%h %an %s", "--name-status", "main"))
	for _, tk := range s.tasks {
		id := tk.ID
		assert.Check(t, is.Equal(backlog[id].Status, "done"), id)
		assert.Check(t, is.Len(strings.Fields(w.git(t, "rev-list", "main", "--", id)), 1), "commits of %s", id)
		if commit := commitOf(t, backlog[id]); commit != "" { // another run has made it otherwise
			assert.Check(t, slices.Contains(onBranch, commit), "%s has commit %s, which is not on the branch", id, commit)
		}
		n := log.done[id]
		known := n > 0 || log.died[backlog[id].Assignee]
		assert.Check(t, known, "no log says that %s is done, which agent %s did", id, backlog[id].Assignee)
		assert.Check(t, n <= 1, "%s is done %d times by the logs", id, n)
	}
	if t.Failed() {
		t.Log(strings.Join(log.all, "\n"))
	}
	aside, _ := os.ReadFile(filepath.Join(s.cache, "aside"))
	for _, file := range strings.Fields(string(aside)) {
		assert.Check(t, w.git(t, "rev-list", "--all", "--", file) != "", "the commit of %s is lost", file)
	}
	assert.Check(t, is.Equal(w.git(t, "status", "--porcelain"), ""))
	assert.Check(t, is.Equal(w.git(t, "rev-parse", "--abbrev-ref", "HEAD"), "main"))
	w.waitForIdle(t)
	said := strings.Join(s.notes, "\n")
	for _, never := range []string{`"docker rm `, `"docker volume rm `, "panic: ", "goroutine "} {
		assert.Check(t, !strings.Contains(said, never), never)
	}
}

// commitOf is the commit that a task's result names.
func commitOf(t assert.TestingT, k taskjson.Task) string {
	if len(k.Result) == 0 {
		return ""
	}
	var named struct{ Commit string }
	assert.Check(t, json.Unmarshal(k.Result, &named), k.ID)
	return named.Commit
}

// soakedLog is the content of all logs.
type soakedLog struct {
	done map[string]int  // by task: in how many runs it was done
	died map[string]bool // agents whose loop was killed, so that its last run is in no log
	all  []string        // for a failed test
}

// readLogs reads the logs of all loops.
func (s *soak) readLogs() soakedLog {
	s.t.Helper()
	log := soakedLog{done: map[string]int{}, died: map[string]bool{}}
	for _, file := range s.w.logFiles(s.t, "loop.json") {
		var loop struct {
			AgentID string `json:"agent_id"`
			Ended   time.Time
		}
		about := s.w.readFile(s.t, file)
		assert.NilError(s.t, json.Unmarshal([]byte(about), &loop), about)
		if loop.Ended.IsZero() {
			log.died[loop.AgentID] = true
		}
		lines, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "iterations.jsonl")) // it may have none
		log.all = append(log.all, fmt.Sprintf("%s\n%s\n%s", file, about, lines))
		for line := range strings.Lines(string(lines)) {
			var run struct{ Done []string }
			assert.NilError(s.t, json.Unmarshal([]byte(line), &run), line)
			for _, id := range run.Done {
				log.done[id]++
			}
		}
	}
	return log
}
