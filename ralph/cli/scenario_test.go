package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/ralph/loop"
)

// Shell functions of agents: a correct one runs take, commit and finish.
const (
	agentParts = `#!/bin/sh
take() { id=$(ralph task claim "$@" | sed -n 's/^id: //p'); [ -n "$id" ]; }
commit() { echo "$id" >>work; git add work; git commit --quiet -m "$id"; }
finish() { ralph task done "$id" --result "{\"commit\":\"$(git rev-parse HEAD)\"}" >&2; }
nth() { n=$(($(cat "$STATE/n" 2>/dev/null || echo 0) + 1)); echo $n >"$STATE/n"; }
`
	good = `take && commit && finish`
)

// scenario is a loop over two tasks with a custom agent.
type scenario struct {
	name, agent string
	config      string // ralph.toml
	args        string
	code        int
	status      string // plan-status afterwards
	commits     int
	stdout      []string
	stderr      []string
}

var scenarios = []scenario{
	{
		name: "good", agent: good, status: "0 open, 0 active, 2 done", commits: 2,
		stdout: []string{"Iteration 1: done a/01 | commit ", "Total: 2 runs, 2 tasks done, 2 commits"},
	},
	{
		name: "crashes half way, then works", agent: `nth; take; commit; [ $n = 1 ] && kill -SEGV $$; finish`,
		status: "0 open, 0 active, 2 done", commits: 3,
		stdout: []string{"failed a/01", "Iteration 1: failed a/01 | commit "},
		stderr: []string{"Warning: the agent exited with code 139"},
	},
	{
		name: "never ends", agent: `take; commit; while :; do sleep 1; done`, config: "[loop]\nidle = 0\n", args: "--max-duration 10s",
		code: loop.MaxDuration.ExitCode(), status: "2 open, 0 active, 0 done", commits: 1,
		stdout: []string{"Iteration 1: limit reached a/01"}, stderr: []string{"Error: time limit of "},
	},
	{
		name: "ends without doing anything", agent: `exit 0`, code: loop.Stalled.ExitCode(),
		status: "2 open, 0 active, 0 done", stdout: []string{"Iteration 3: no task"},
		stderr: []string{"Error: no progress: 3 runs in a row without a commit or a finished task"},
	},
	{
		name: "claims two tasks", agent: `take; take`, args: "-n 1", code: loop.Unfinished.ExitCode(), status: "2 open, 0 active, 0 done",
		stdout: []string{"failed a/01", "failed b/02", "Iteration 1: released a/01, b/02"},
	},
	{
		name: "claims two and finishes one", agent: `take; commit; finish; take || :`, args: "-n 1",
		code: loop.Unfinished.ExitCode(), stderr: []string{"Error: unfinished tasks: b/02", `Hint: see why with "ralph task show b/02"`},
		status: "1 open, 0 active, 1 done", commits: 1, stdout: []string{"failed b/02"},
	},
	{
		name: "commits nothing", agent: `take; echo x >>left; [ -e once ] || { touch once; git add once; git commit -qm once; }; finish`, commits: 1,
		stderr: []string{"Warning: a/01 done, but 1 change not committed"}, status: "0 open, 0 active, 2 done",
		stdout: []string{"No checks are configured: a task is done when the agent says so."},
	},
	{
		name: "makes a commit up", agent: `take; commit; ralph task done "$id" --result '{"commit":"0123abcd"}' >&2`, args: "-n 1",
		status: "1 open, 0 active, 1 done", commits: 1,
		stderr: []string{"Warning: task a/01 is done, but its commit 0123abcd is not on the branch"},
	},
	{
		name: "gives everything back", agent: `take; ralph task fail "$id" --reason "too hard" >&2`, code: loop.Unfinished.ExitCode(),
		status: "0 open, 0 active, 0 done, 2 blocked", stdout: []string{"Iteration 1: released a/01", "Iteration 6: released b/02", "| reason: too hard", ", 6 released, "},
		stderr: []string{"Warning: task a/01 is blocked after repeated failures: too hard\nHint: reopen it with \"ralph task reopen a/01\""},
	},
	{
		name: "breaks the build", agent: `nth; take; echo $n >built; commit; finish`, config: "[checks]\ncommands = [\"test $(cat built) -gt 1\"]\n",
		status: "0 open, 0 active, 2 done", commits: 3,
		stdout: []string{"Check failed with exit code 1", "reopened a/01", "Iteration 1: checks failed a/01", "Iteration 2: done a/01"},
	},
	{
		name: "prints 80 MB", agent: `take; commit; head -c 80000000 /dev/zero | tr '\0' x; echo; finish`, args: "-n 1",
		status: "1 open, 0 active, 1 done", commits: 1,
	},
	{
		name: "prints no newline", agent: `take; commit; finish; printf working`, args: "-n 1",
		status: "1 open, 0 active, 1 done", commits: 1, stdout: []string{"working\nIteration 1: done a/01"},
	},
	{
		name: "forks and detaches", status: "1 open, 0 active, 1 done", commits: 1, args: "-n 1",
		agent: `take; commit; finish; setsid sh -c 'trap "" HUP TERM INT; echo $$ >"$STATE/escaped"; exec sleep 600' >/dev/null 2>&1 & while [ ! -s "$STATE/escaped" ]; do sleep 0.01; done`,
	},
	{
		name: "forks and keeps the output open", status: "1 open, 0 active, 1 done", commits: 1, args: "-n 1",
		agent: `take; commit; finish; (trap "" HUP TERM INT; exec sleep 600) & echo $! >"$STATE/escaped"`,
	},
	{
		name: "eats its prompt", agent: `rm -rf .ralph/prompts specs; take; commit; finish`, status: "0 open, 0 active, 2 done", commits: 2,
	},
	{
		name: "is silent at one task", agent: `take; [ "$id" != a/01 ] || sleep 600; commit; finish`, args: "--idle 0.1", code: loop.Unfinished.ExitCode(),
		status: "0 open, 0 active, 1 done, 1 blocked", commits: 1,
		stdout: []string{"Iteration 1: silent a/01", "Iteration 4: done b/02"},
		stderr: []string{"Warning: the agent was stopped: no output for 6s", "Warning: task a/01 is blocked after repeated failures: session was silent for too long"},
	},
	{
		name: "meets an outage", agent: `nth; take; if [ $n = 1 ]; then echo API Error: 503 >&2; exit 1; fi; commit; finish`, args: "-n 2",
		status: "0 open, 0 active, 2 done", commits: 2,
		stdout: []string{"Iteration 1: model unavailable a/01", `The model of agent mine is not available ("API Error: 503"). Waiting 5s, until `, "Iteration 3: done b/02"},
	},
	{
		name: "meets an outage that is too long", agent: `take; echo API Error: 503 >&2; exit 1`, args: "--max-wait 1s", code: loop.Unavailable.ExitCode(),
		status: "2 open, 0 active, 0 done", stderr: []string{"Error: the model of agent mine is not available: waited 0s, and the next pause is 5s, longer than max_wait (1s) (\"API Error: 503\")"},
	},
	{
		name: "has no credit", agent: `take; echo API Error: 402 >&2; exit 1`, code: loop.Failed.ExitCode(), status: "2 open, 0 active, 0 done",
		stdout: []string{"Iteration 1: failed a/01"}, stderr: []string{"Error: mine: the model's account has no credit: API Error: 402\nHint: add credit to the account, or use another key"},
	},
	{
		name: "rate limited twice", args: "-n 2",
		agent:  `nth; take; if [ $n -le 2 ]; then echo "Error: 429 rate limit, try again in 1s" >&2; exit 1; fi; commit; finish`,
		status: "0 open, 0 active, 2 done", commits: 2,
		stdout: []string{"Iteration 1: rate limited a/01", `Rate limit of mine ("Error: 429 rate limit, try again in 1s")`, "Iteration 4: done b/02"},
	},
	{
		name: "rate limited for too long", agent: `echo "usage limit reached. Try again in 5 hours" >&2; exit 1`, args: "--max-wait 10m",
		code: loop.RateLimited.ExitCode(), status: "2 open, 0 active, 0 done",
		stderr: []string{"lasts another 5h00m, longer than max_wait (10m0s)"},
	},
	{
		// As if the clock had been set back before its claim.
		name: "claims for years", agent: `take --lease 99999999; exit 3`, args: "-n 1", code: loop.RunFailed.ExitCode(), status: "2 open, 0 active, 0 done",
		stdout: []string{"failed a/01"},
	},
	{
		name: "killed by the kernel", agent: `take; kill -KILL $$`, code: loop.RunFailed.ExitCode(), status: "0 open, 0 active, 0 done, 2 blocked",
		stdout: []string{"failed a/01"}, stderr: []string{"exited with code 137"},
	},
	{
		name: "fails at one task", agent: `take; [ "$id" != a/01 ] || exit 3; commit; finish`, code: loop.Unfinished.ExitCode(),
		status: "0 open, 0 active, 1 done, 1 blocked", commits: 1,
		stdout: []string{"Iteration 3: failed a/01", "Iteration 4: done b/02"},
		stderr: []string{"Warning: task a/01 is blocked after repeated failures: session exited without completing task", "Error: unfinished tasks: a/01"},
	},
	{
		name: "breaks the build for good", agent: `take; commit; finish`, config: "[checks]\ncommands = [\"test $(tail -n 1 work) != a/01\"]\n",
		code: loop.Unfinished.ExitCode(), status: "1 done, 1 blocked", commits: 4, stdout: []string{"Iteration 3: checks failed a/01"},
		stderr: []string{"Warning: task a/01 is blocked after repeated failures: check "},
	},
	{
		name: "has a check that does not end", agent: good, config: "[checks]\ncommands = [\"tail -f /dev/null\"]\ntimeout = \"1s\"\n",
		code: loop.BrokenCheck.ExitCode(), status: "0 open, 0 active, 0 done, 0 blocked, 0 deleted, 2 question", commits: 2,
		stdout: []string{"Iteration 1: question a/01", `Task a/01 waits for an answer: The task is finished, but the check "tail -f /dev/null" took longer than 1s. Is the check right?`},
		stderr: []string{`Error: no task can be checked: the check "tail -f /dev/null" took longer than 1s`},
	},
	{
		name: "needs decisions", agent: `take; ralph task ask "$id" "Which?" --option x >&2`, code: loop.Questions.ExitCode(),
		status: "0 open, 0 active, 0 done, 0 blocked, 0 deleted, 2 question",
		stdout: []string{"Iteration 1: question a/01 | ", "Task a/01 waits for an answer: Which?\n", "Iteration 2: question b/02 | "},
		stderr: []string{"Error: only questions are left: a/01, b/02\n", `Hint: list them with "ralph task questions", and answer with "ralph task answer TASK ANSWER"`},
	},
	{
		name: "works beside another loop that fails", args: "-n 1", status: "1 open, 0 active, 1 done", commits: 1,
		agent:  `take; commit; other="env RALPH_AGENT_ID=other ralph task"; $other claim b/02 >&2; $other fail b/02 --reason "too hard" >&2; finish`,
		stdout: []string{"Iteration 1: done a/01 | "},
	},
	{
		name: "works beside another loop that asks", args: "-n 1", code: loop.Questions.ExitCode(), status: "0 open, 0 active, 1 done, 0 blocked, 0 deleted, 1 question", commits: 1,
		agent:  `take; commit; other="env RALPH_AGENT_ID=other ralph task"; $other claim b/02 >&2; $other ask b/02 "Which?" >&2; finish`,
		stdout: []string{"Iteration 1: done a/01 | "},
	},
	{
		name: "terminal escapes", agent: `take; commit; finish; printf '\033]0;evil\007\033[2Jseen\n'; printf '\033[31mred\n' >&2`, args: "-n 1",
		status: "1 open, 0 active, 1 done", commits: 1, stdout: []string{"seen"}, stderr: []string{"red"},
	},
}

// After any agent, its commits exist, each task is done or open, none of its processes
// is running, and the log is complete.
func TestMisbehavingAgents(t *testing.T) {
	for _, tc := range scenarios {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newScenario(t, tc.agent, tc.config)
			cmd := p.command(append([]string{filepath.Join(p.dir, ".bin", "ralph"), "build", "--danger"}, strings.Fields(tc.args)...)...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // the code says it
			printed := stdout.String()
			if len(printed) > 10000 {
				printed = printed[:1000] + "…" + printed[len(printed)-9000:]
			}
			assert.Equal(t, cmd.ProcessState.ExitCode(), tc.code, "%s\n%s", printed, stderr.String())
			for _, want := range tc.stdout {
				assert.Check(t, cmp.Contains(printed, want))
			}
			for _, want := range tc.stderr {
				assert.Check(t, cmp.Contains(stderr.String(), want))
			}
			assert.Check(t, !bytes.ContainsRune(stdout.Bytes(), 0x1b) && !bytes.ContainsRune(stderr.Bytes(), 0x1b))
			p.assertSane(t, tc)
		})
	}
}

// newScenario is a repository with two tasks and an agent called mine.
func newScenario(t *testing.T, script, config string) place {
	t.Helper()
	p := newPlace(t, "")
	state := t.TempDir()
	p.env = append(p.env, "STATE="+state)
	agent := filepath.Join(p.dir, ".bin", "mine")
	writeProgram(t, agent, agentParts+script+"\n")
	config = "[agent]\nname = \"mine\"\n[agents.mine]\ncommand = [\"mine\"]\n" + config
	assert.NilError(t, os.WriteFile(filepath.Join(p.dir, "ralph.toml"), []byte(config), 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(p.dir, ".git", "info", "exclude"), []byte(".bin\n.home\nralph-*\n"), 0o600))
	p.git(t, "add", "--all")
	p.git(t, "commit", "--quiet", "-m", "start")
	p.task(t, "create", "b/02", "Second")
	return p
}

func (p place) git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.command(append([]string{"git"}, args...)...).CombinedOutput()
	assert.NilError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// assertSane checks the invariants after every loop.
func (p place) assertSane(t *testing.T, tc scenario) {
	t.Helper()
	assert.Check(t, cmp.Contains(p.task(t, "plan-status"), tc.status))
	assert.Equal(t, p.task(t, "list", "--status", "active"), "", "no task is active")
	assert.Equal(t, p.task(t, "agent", "list"), "")
	assert.Equal(t, p.git(t, "rev-list", "--count", "HEAD"), fmt.Sprint(tc.commits+1))
	p.git(t, "fsck")
	state := regexp.MustCompile(`STATE=(.*)`).FindStringSubmatch(p.env[len(p.env)-1])[1]
	if escaped := filepath.Join(state, "escaped"); fileExists(escaped) {
		assertGone(t, escaped)
	}
	logs, err := filepath.Glob(filepath.Join(p.dir, ".ralph", "logs", "*"))
	assert.NilError(t, err)
	assert.Equal(t, len(logs), 1)
	var ended struct {
		ExitCode int `json:"exit_code"`
		Stop     string
	}
	b, err := os.ReadFile(filepath.Join(logs[0], "loop.json"))
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(b, &ended))
	assert.Equal(t, ended.ExitCode, tc.code)
	info, err := os.Stat(filepath.Join(logs[0], "1.jsonl"))
	assert.NilError(t, err)
	assert.Assert(t, info.Size() < 65<<20)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestNextLoopReleasesTasksOfAKilledLoop(t *testing.T) {
	p := newScenario(t, `nth; take --lease 99999999; if [ $n = 1 ]; then echo $$ >"$STATE/escaped"; sleep 600; fi; ralph task show "$id" >>"$STATE/shown"; commit; finish`, "")
	ralph := filepath.Join(p.dir, ".bin", "ralph")
	cmd := p.command(ralph, "build", "--danger")
	assert.NilError(t, cmd.Start())
	state := strings.TrimPrefix(p.env[len(p.env)-1], "STATE=")
	poll.WaitOn(t, poll.FileExists(filepath.Join(state, "escaped")))
	// A concurrent loop does not touch the task of the first.
	out, err := p.command(ralph, "build", "--danger", "-n", "1").CombinedOutput()
	assert.NilError(t, err, string(out))
	assert.Assert(t, cmp.Regexp(`(?m)^Note: agent [0-9a-f]{4} is also working on this backlog, since .* UTC\.$`, string(out)))
	assert.Assert(t, cmp.Contains(string(out), "Iteration 1: done b/02"))

	assert.NilError(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	assertGone(t, filepath.Join(state, "escaped"))
	assert.Assert(t, cmp.Contains(p.task(t, "list"), "active"))
	out, err = p.command(ralph, "build", "--danger").CombinedOutput()
	assert.NilError(t, err, string(out))
	assert.Assert(t, cmp.Regexp(`(?m)^Task a/01 is open again: agent [0-9a-f]{4}, which held it, died\.$`, string(out)))
	assert.Assert(t, cmp.Contains(p.task(t, "plan-status"), "0 open, 0 active, 2 done"))
	shown, err := os.ReadFile(filepath.Join(state, "shown"))
	assert.NilError(t, err)
	assert.Assert(t, cmp.Contains(string(shown), "Fail reason: agent process died"))
	assert.Assert(t, !strings.Contains(p.task(t, "show", "a/01"), "Fail reason"))
}

func TestRunningLoopCannotBeResumed(t *testing.T) {
	p := newScenario(t, `take; touch "$STATE/begun"; until [ -e "$STATE/go" ]; do sleep 0.05; done; commit; finish`, "")
	ralph := filepath.Join(p.dir, ".bin", "ralph")
	cmd := p.command(ralph, "build", "--danger")
	assert.NilError(t, cmd.Start())
	state := strings.TrimPrefix(p.env[len(p.env)-1], "STATE=")
	poll.WaitOn(t, poll.FileExists(filepath.Join(state, "begun")))
	out, err := p.command(ralph, "build", "--danger", "--resume").CombinedOutput()
	assert.ErrorContains(t, err, "exit status 1")
	assert.Assert(t, cmp.Contains(string(out), "Error: resuming the last build loop: the loop is still running\nHint: start a second one without --resume"))
	assert.NilError(t, os.WriteFile(filepath.Join(state, "go"), nil, 0o600))
	assert.NilError(t, cmd.Wait())
	out, err = p.command(ralph, "build", "--danger", "--resume").CombinedOutput()
	assert.NilError(t, err, string(out))
}

func TestFullDiskLosesOnlyTheLog(t *testing.T) {
	p := newScenario(t, `take; commit; head -c 3000000 /dev/zero | tr '\0' x; echo; finish`, "")
	logs := filepath.Join(p.dir, ".ralph", "logs")
	assert.NilError(t, os.MkdirAll(logs, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", logs).CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mounting a small file system: %s", out)
		}
		t.Skipf("no file system can be mounted here: %s", out)
	}
	defer func() { _ = exec.Command("umount", "-l", logs).Run() }()
	cmd := p.command(filepath.Join(p.dir, ".bin", "ralph"), "build", "--danger")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	assert.NilError(t, cmd.Run(), stderr.String())
	assert.Assert(t, cmp.Contains(stderr.String(), "no space left on device; continuing without that log"))
	assert.Assert(t, cmp.Contains(p.task(t, "plan-status"), "0 open, 0 active, 2 done"))
}

func TestNextRunGetsTheAnswer(t *testing.T) {
	p := newScenario(t, `nth; cat >"$STATE/prompt$n"; take; [ $n != 1 ] || exec ralph task ask "$id" "Which store?" >&2; commit; finish`, "")
	ralph := filepath.Join(p.dir, ".bin", "ralph")
	out, err := p.command(ralph, "build", "--danger", "-n", "1").CombinedOutput()
	assert.NilError(t, err, string(out)) // b/02 is left
	p.task(t, "answer", "a/01", "redis")
	out, err = p.command(ralph, "build", "--danger").CombinedOutput()
	assert.NilError(t, err, string(out))
	state := strings.TrimPrefix(p.env[len(p.env)-1], "STATE=")
	prompt, err := os.ReadFile(filepath.Join(state, "prompt2"))
	assert.NilError(t, err)
	assert.Check(t, cmp.Contains(string(prompt), "- `a/01`: Which store?\n  Answer: redis\n"))
	assert.Check(t, cmp.Contains(p.task(t, "plan-status"), "0 open, 0 active, 2 done"))
}
