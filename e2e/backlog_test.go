//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// The backlog is on the host. Agents and loops in sandboxes reach it through the command that runs them.

// deadHost is an engine that does not exist.
const deadHost = "unix:///nowhere.sock"

// task is a line for plan-sync.
type task struct {
	ID       string   `json:"id"`
	Title    string   `json:"t"`
	Priority int      `json:"p"`
	Steps    []string `json:"steps,omitempty"`
}

// plan fills the backlog, which needs no sandbox. A step that shares files with its test makes their directory.
func (w *world) plan(t *testing.T, tasks ...task) {
	t.Helper()
	var lines strings.Builder
	for _, tk := range tasks {
		tk.Steps = slices.Clone(tk.Steps)
		for i, step := range tk.Steps {
			if strings.Contains(step, ".ralph/") {
				tk.Steps[i] = "mkdir -p .ralph; " + step
			}
		}
		line, err := json.Marshal(tk)
		assert.NilError(t, err)
		lines.Write(append(line, '\n'))
	}
	cmd := w.docker("ralph", "task", "plan-sync")
	cmd.Stdin = strings.NewReader(lines.String())
	run(t, cmd).expect(t, 0)
}

// tasks returns the backlog by its IDs. Like everything about the backlog, it needs neither an engine nor a sandbox.
func (w *world) tasks(t *testing.T) map[string]taskjson.Task {
	t.Helper()
	var all []taskjson.Task
	assert.NilError(t, json.Unmarshal([]byte(w.ok(t, "task", "list", "--format", "json")), &all))
	found := map[string]taskjson.Task{}
	for _, k := range all {
		found[k.ID] = k
	}
	return found
}

// statuses returns the status of every task by its ID.
func (w *world) statuses(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for id, k := range w.tasks(t) {
		found[id] = k.Status
	}
	return found
}

// The backlog needs neither an engine nor a sandbox, and outlives the sandbox whose agent has asked.
func TestBacklogNeedsNoEngine(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "A", Steps: []string{`ralph task ask a "Why?" --default because --default-after 8h`}})
		assert.Equal(t, len(w.sandboxes(t)), 0)
		w.ralph(t, "build", "-n", "1")

		away := *w
		away.env = append(slices.Clone(w.env), "DOCKER_HOST="+deadHost)
		assert.Check(t, is.Contains(away.ok(t, "status"), w.slug))
		assert.Check(t, is.Contains(away.ok(t, "ls"), w.slug))
		w.ok(t, "clean", "--force")

		assert.Check(t, is.Contains(away.ok(t, "questions"), "a: A\n  Why?\n  1. because (default in "))
		assert.Check(t, is.Contains(away.ok(t, "questions", "--all"), "a: A\n  Why?\n"))
		assert.Equal(t, away.ok(t, "answer", "a", "so"), "answered a: so\n")
		assert.Equal(t, away.ok(t, "questions", "--format", "json"), "[]\n")
		res := away.ralph(t, "task", "create", "b", "B").expect(t, 0)
		assert.Equal(t, res.stdout+res.stderr, "b\n")
		away.plan(t, task{ID: "c", Title: "C"})
		away.ok(t, "task", "claim", "c", "--agent", "me")
		assert.DeepEqual(t, away.statuses(t), map[string]string{"a": "open", "b": "open", "c": "active"})
		assert.Check(t, is.Contains(away.ok(t, "status"), w.slug))
		assert.Equal(t, len(w.sandboxes(t)), 0)
		_, err := os.Stat(filepath.Join(w.repo, ".ralph", "tasks.db"))
		assert.Check(t, os.IsNotExist(err))
	})
}

// The backlog of ralph without docker is imported once, and stays where it is.
func TestBacklogOfPlainRalphIsImportedOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		program, err := shared.ralph()
		assert.NilError(t, err)
		plain := func(args ...string) string {
			return run(t, w.command(program, args...)).expect(t, 0).stdout
		}
		plain("task", "create", "a", "Add a", "-s", `["echo a >a.txt"]`)
		res := w.ralph(t, "task", "plan-status").expect(t, 0)
		assert.Equal(t, res.stdout, "1 open, 0 active, 0 done, 0 blocked, 0 deleted\n")
		assert.Equal(t, res.stderr, "Imported 1 task from .ralph/tasks.db\n")

		plain("task", "create", "b", "Not here")
		w.ok(t, "build")
		res = w.ralph(t, "task", "list").expect(t, 0)
		assert.Equal(t, res.stderr, "")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done"})
		assert.Equal(t, plain("task", "plan-status"), "2 open, 0 active, 0 done, 0 blocked, 0 deleted\n")
	})
}

// The tasks of a branch that was renamed, or of another origin, are found and taken over.
func TestRenamedBranchKeepsItsBacklog(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a"})
		for _, rename := range [][]string{{"branch", "-m", "renamed"}, {"remote", "set-url", "origin", "https://git.example/" + w.slug + "-2.git"}} {
			w.git(t, rename...)
			res := w.ralph(t, "task", "list").expect(t, 0)
			assert.Check(t, is.Contains(res.stdout+res.stderr, "docker ralph task adopt"))
			assert.Check(t, is.Contains(w.ok(t, "task", "adopt"), "adopted 1 task of "))
			assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
		}
	})
}

// tamper is a step that tries what only users and loops may do, and leaves the answers in .ralph/answers.
const tamper = `mkdir -p .ralph; try() { echo "$ ralph task $*"; ralph task "$@" </dev/null; echo "exit code $?"; }
{
	try delete other
	try delete --all --confirm
	try reopen finished
	try done other
	try fail other mine
	try block other --by finished
	try update other --title Changed
	try update mine --status done
	try answer asked red
	try adopt
	try agent register
	RALPH_AGENT_ID=beef try done claimed
} >.ralph/answers 2>&1
find / \( -name tasks.db -o -name events.jsonl -o -name loop.json \) -not -path '/proc/*' 2>/dev/null >.ralph/state; true`

// An agent works on the task that it holds, creates others, and asks. What it may not do is refused, and neither
// the backlog nor the log of its loop is in the sandbox or in the worktree.
func TestAgentChangesItsTaskOnly(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "finished", Title: "Finished", Steps: []string{"true"}})
		w.ok(t, "build", "-n", "1")
		w.plan(t, task{ID: "asked", Title: "Ask", Steps: []string{`ralph task ask asked "Which?" --option red`}})
		w.ralph(t, "build", "-n", "1")
		w.plan(t, task{ID: "other", Title: "Other", Priority: 2}, task{ID: "claimed", Title: "Claimed", Priority: 2})
		w.ok(t, "task", "claim", "claimed", "--agent", "beef")
		w.plan(t, task{ID: "mine", Title: "Mine", Steps: []string{tamper, "ralph task create found 'Found on the way' -p 3"}})
		w.ok(t, "build", "-n", "1")

		answers := w.readFile(t, w.pathInside(t, ".ralph/answers"))
		assert.Check(t, is.Contains(answers, "$ ralph task delete other\nError: only a user may run \"task delete\"\nHint: run \"docker ralph task delete\" outside of the sandbox\nexit code 1\n"))
		for _, command := range []string{"reopen", "answer", "adopt"} {
			assert.Check(t, is.Contains(answers, "Error: only a user may run \"task "+command+"\"\n"))
		}
		assert.Equal(t, strings.Count(answers, "exit code "), 12, answers)
		assert.Check(t, !strings.Contains(answers, "exit code 0"), answers)
		assert.Equal(t, w.readFile(t, w.pathInside(t, ".ralph/state")), "")
		for _, file := range []string{"tasks.db", "logs"} {
			for _, path := range []string{w.pathInside(t, ".ralph/"+file), filepath.Join(w.repo, ".ralph", file)} {
				_, err := os.Lstat(path)
				assert.Check(t, os.IsNotExist(err), path)
			}
		}
		assert.DeepEqual(t, w.statuses(t), map[string]string{
			"finished": "done", "asked": "question", "other": "open", "claimed": "active", "mine": "done", "found": "open",
		})
		assert.Equal(t, w.tasks(t)["other"].Title, "Other")
		assert.Equal(t, w.tasks(t)["claimed"].Assignee, "beef")
	})
}

// forge is a program of an agent that sends a loop's request over the socket, and prints the first line of the answer.
const forge = `use Socket; my $s; my $body = '{"slug":"other","reason":"forged"}';
socket($s, PF_UNIX, SOCK_STREAM, 0) && connect($s, sockaddr_un("/run/ralph/$ENV{RALPH_SESSION}.sock")) or die "no socket: $!";
syswrite $s, "POST /v1/loop/$ARGV[0] HTTP/1.1\r\nHost: ralph\r\nAuthorization: Bearer x\r\nContent-Type: application/json\r\nContent-Length: ".length($body)."\r\nConnection: close\r\n\r\n$body";
sysread $s, my $answer, 4096; print((split /\r\n/, $answer)[0], "\n");
`

// An agent in a container cannot pretend to be its loop: its requests are refused, those for the log as well, and it
// can neither read the loop's environment, nor replace its socket, nor end what relays its requests.
func TestLoopRequestsOfAnAgentAreRefused(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.createSandbox(t)
		w.write(t, w.pathInside(t, ".ralph/forge.pl"), forge)
		w.plan(t, task{ID: "other", Title: "Other", Priority: 2}, task{ID: "mine", Title: "Mine", Priority: 1, Steps: []string{
			"for name in tasks reopen release register log-open log-write; do perl .ralph/forge.pl $name; done >.ralph/forged 2>&1",
			"setsid perl .ralph/forge.pl tasks >>.ralph/forged 2>&1",
			"for file in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$file | grep -q '^[^ ]*ralph build ' && cat ${file%cmdline}environ; done >.ralph/environment 2>/dev/null; true",
			"for file in /proc/[0-9]*/cmdline; do pid=${file#/proc/}; tr '\\0' ' ' <$file | grep -q ' _sessio[n] ' && kill -9 ${pid%/cmdline} && echo killed; done >>.ralph/environment 2>/dev/null; true",
			"! rm -f /run/ralph/$RALPH_SESSION.sock && ! touch /run/ralph/x",
		}})
		w.ok(t, "build", "-n", "1")
		forged := strings.Split(strings.TrimSpace(w.readFile(t, w.pathInside(t, ".ralph/forged"))), "\n")
		assert.Equal(t, len(forged), 7, "%q", forged)
		for _, answer := range forged {
			assert.Check(t, is.Regexp("^HTTP/1.1 403 ", answer))
		}
		assert.Equal(t, w.readFile(t, w.pathInside(t, ".ralph/environment")), "")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"other": "open", "mine": "done"})
	})
}

// A loop whose command was killed ends its run and waits. Whatever command comes next to its sandbox lets it go
// on. Nothing is done twice, and everything that the agent has printed meanwhile is in the log.
func TestNextCommandLetsAWaitingLoopGoOn(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.useClone()
		for i, next := range [][]string{
			{"attach"},
			{"shell", "--", "sh", "-c", "while grep -lsqz '^build$' /proc/[0-9]*/cmdline; do sleep 0.2; done"},
		} {
			began := time.Now()
			id := func(name string) string { return fmt.Sprintf("%s-%d", name, i) }
			steps := func(name string) []string {
				return []string{fmt.Sprintf("echo x >%[1]s; git add %[1]s; git commit -qm 'Add %[1]s'", id(name))}
			}
			gate := fmt.Sprintf("touch .ralph/begun-%[1]d; until test -e .ralph/go-%[1]d; do sleep 0.05; done", i)
			talk := fmt.Sprintf("for n in $(seq 2000); do echo word $n of %s.; done", id("a"))
			w.plan(t, task{ID: id("a"), Title: "A", Steps: append([]string{gate, talk}, steps("a")...)},
				task{ID: id("b"), Title: "B", Priority: 1, Steps: steps("b")})
			build := start(t, w.docker("ralph", "build"))
			waitForFile(t, w.pathInside(t, ".ralph/begun-"+fmt.Sprint(i)))
			build.signalGroup(syscall.SIGKILL)
			build.wait(t)
			w.write(t, w.pathInside(t, ".ralph/go-"+fmt.Sprint(i)), "")
			eventually(t, func() error {
				res := run(t, w.docker("exec", "-u", w.insideUser(), w.sandbox(t).ID, "git", "-C", w.repo, "log", "-1", "--format=%s"))
				if res.stdout != "Add "+id("a")+"\n" {
					return fmt.Errorf("the run has not committed: %s%s", res.stdout, res.stderr)
				}
				return nil
			})
			assert.Equal(t, w.statuses(t)[id("a")], "active", "nobody could finish it")
			assert.Equal(t, w.statuses(t)[id("b")], "open")

			w.ok(t, next...)
			w.waitForIdle(t)
			assert.Equal(t, w.statuses(t)[id("a")], "done")
			assert.Equal(t, w.statuses(t)[id("b")], "done")
			log := w.ok(t, "logs", "--raw", "--iteration", "1")
			for n := range 2000 {
				word := fmt.Sprintf("word %d of %s.", n+1, id("a"))
				assert.Assert(t, strings.Contains(log, word), word)
			}
			w.ok(t, "build") // finds nothing to do
			for _, name := range []string{"a", "b"} {
				assert.Equal(t, strings.Count("\n"+w.git(t, "log", "--format=%s")+"\n", "\nAdd "+id(name)+"\n"), 1)
				assert.Equal(t, len(w.logged(t, began)[id(name)]), 1)
			}
		}
	})
}

// A shell beside a loop cannot use the session of the loop.
func TestShellKeepsTheTasksOfALoop(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.ignore(t, "begun", "go", "assignee")
		w.plan(t, task{ID: "first", Title: "First", Steps: []string{"echo $RALPH_AGENT_ID >assignee; touch begun; until test -e go; do sleep 0.05; done"}})
		first := start(t, w.docker("ralph", "build", "-n", "1"))
		waitForFile(t, w.pathInside(t, "begun"))
		answers := w.ok(t, "shell", "--", "sh", "-c",
			"RALPH_AGENT_ID=$(cat assignee); export RALPH_AGENT_ID; own=$RALPH_SESSION; for session in $(ls /run/ralph | sed s/.sock//); do test $session = $own || "+
				"for command in done fail renew; do RALPH_SESSION=$session ralph task $command first 2>&1; echo exit code $?; done; done")
		if w.driver == "container" { // where a process finds the sockets of all sessions
			assert.Equal(t, strings.Count(answers, "exit code "), 3, answers)
		}
		assert.Check(t, !strings.Contains(answers, "exit code 0"), answers)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"first": "active"})
		w.write(t, w.pathInside(t, "go"), "")
		first.wait(t).expect(t, 0)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"first": "done"})
	})
}

// A build waits for the one that works in its sandbox, and for one whose process here was killed: with the files
// of both, each would deliver commits of the other one.
func TestBuildsOfASandboxTakeTurns(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(map[bool]string{false: "running", true: "killed"}[killed], func(t *testing.T) {
			withClone(t, func(t *testing.T, w *world) {
				w.ignore(t, "begun", "go")
				w.plan(t, task{ID: "first", Title: "First", Steps: []string{"echo draft >first.txt; git add .; git commit -qm Draft; touch begun; until test -e go; do sleep 0.05; done; echo first >first.txt"}},
					task{ID: "second", Title: "Second", Priority: 1, Steps: []string{"echo second >second.txt"}})
				first := start(t, w.docker("ralph", "build", "-n", "1"))
				waitForFile(t, w.pathInside(t, "begun"))
				if killed {
					first.signalGroup(syscall.SIGKILL)
					first.wait(t)
				}
				second := start(t, w.docker("ralph", "build", "-n", "1"))
				awaitOutput(t, second, "Waiting for another loop in sandbox "+w.sandbox(t).Name)
				assert.DeepEqual(t, w.statuses(t), map[string]string{"first": "active", "second": "open"})
				w.git(t, "switch", "-q", "-c", "elsewhere") // its branch is that on which it was started
				w.write(t, w.pathInside(t, "go"), "")
				if !killed {
					first.wait(t).expect(t, 0)
				}
				res := second.wait(t).expect(t, 0)
				assert.Check(t, is.Contains(res.stdout+res.stderr, "1 commit"), res)
				w.git(t, "switch", "-q", "main")
				assert.DeepEqual(t, w.statuses(t), map[string]string{"first": "done", "second": "done"})
				assert.Equal(t, w.git(t, "show", "main:first.txt"), "first")
				assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "main", "--", "second.txt"), "Second")
			})
		})
	}
}
