package task

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// hostStore is a backlog with the tasks mine and theirs, claimed by the agents me and you, and the open ones open and
// other.
func hostStore(t *testing.T) *backlog.Store {
	t.Helper()
	s, err := backlog.OpenHost(t.Context(), filepath.Join(t.TempDir(), "tasks.db"), backlog.Scope{Repo: "acme/shop", Branch: "main"})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close()) })
	for _, slug := range []string{"mine", "theirs", "open", "other"} {
		assert.NilError(t, s.Create(t.Context(), backlog.NewTask{Slug: slug, Title: slug, Priority: 2}))
	}
	for slug, agent := range map[string]string{"mine": "me", "theirs": "you"} {
		_, err := s.Claim(t.Context(), backlog.ClaimOptions{Slug: slug, Agent: agent, Lease: backlog.DefaultLease})
		assert.NilError(t, err)
	}
	assert.NilError(t, s.Block(t.Context(), "mine", "other"))
	assert.NilError(t, s.Block(t.Context(), "theirs", "other"))
	return s
}

// asAgent runs a command as the agent me.
func asAgent(t *testing.T, s *backlog.Store, command, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	io := streams(&stdout, &stderr)
	io.Stdin, io.Store, io.Access, io.Agent, io.Command = strings.NewReader(stdin), s, AccessAgent, "me", command
	io.Getenv = func(string) string { return "you" } // of the host
	code := Run(t.Context(), args, io)
	return outcome{stdout.String(), stderr.String(), code}
}

func TestAgentMayRun(t *testing.T) {
	for _, line := range []string{
		"peek", "list", "list --all --format json", "show theirs", "deps theirs", "plan-status", "questions", "export", "agent list", "_get-scope",
		"_render-md {}", "claim", "claim open", "claim open --agent me", "create new Title --deps mine", "plan-sync",
		"renew mine", "renew mine --agent me", "done mine", "fail mine --reason no", "ask mine Why? --agent me", "update mine --title T",
		"block mine --by theirs", "unblock mine --by other", "--help",
	} {
		t.Run(line, func(t *testing.T) {
			out := asAgent(t, hostStore(t), "plan", "", strings.Fields(line)...)
			assert.Equal(t, out.code, exitOK, out.stderr)
			assert.Equal(t, out.stderr, "")
		})
	}
}

func TestAgentChangesOnlyWhatItHolds(t *testing.T) {
	for _, line := range []string{
		"renew %", "done %", "fail %", "ask % Why?", "update % --title T", "block % --by mine", "unblock % --by other",
	} {
		t.Run(line, func(t *testing.T) {
			s := hostStore(t)
			for slug, want := range map[string]string{
				"theirs": "Error: task 'theirs' is held by agent 'you'\n", "open": "Error: task 'open' is not active (status: open)\n",
			} {
				before, err := s.Show(t.Context(), slug)
				assert.NilError(t, err)
				out := asAgent(t, s, "plan", "", strings.Fields(strings.ReplaceAll(line, "%", slug))...)
				assert.Equal(t, out, outcome{stderr: want, code: exitFailure})
				after, err := s.Show(t.Context(), slug)
				assert.NilError(t, err)
				assert.DeepEqual(t, after, before)
			}
		})
	}
}

func TestAgentMayNotRun(t *testing.T) {
	for _, tc := range []struct{ line, command string }{
		{"delete mine", "delete"},
		{"delete --all --confirm", "delete"},
		{"reopen mine", "reopen"},
		{"adopt", "adopt"},
		{"import /etc/passwd", "import"},
		{"answer mine x", "answer"},
		{"agent register", "agent register"},
		{"agent deregister me", "agent deregister"},
		{"agent", "agent"},
		{"plan-sync", "plan-sync"},
		{"update mine --status done", "update --status"},
		{"update mine --title T --status open", "update --status"},
	} {
		t.Run(tc.line, func(t *testing.T) {
			want := "Error: only a user may run \"task " + tc.command + "\"\nHint: run \"docker ralph task " + tc.command + "\" outside of the sandbox\n"
			assert.Equal(t, asAgent(t, hostStore(t), "build", "", strings.Fields(tc.line)...), outcome{stderr: want, code: exitFailure})
		})
	}
}

// A command that is added later is for users, until it is known to be safe.
func TestEveryCommandIsDecidedFor(t *testing.T) {
	allowed := 0
	for name := range commands() {
		s := &session{IO: IO{Access: AccessAgent}}
		if s.authorize(name, nil) == nil {
			allowed++
		}
	}
	assert.Equal(t, allowed, 20)
}

func TestAgentCannotNameAnother(t *testing.T) {
	for _, line := range []string{"claim open --agent you", "renew theirs --agent you", "ask theirs Why? --agent you"} {
		out := asAgent(t, hostStore(t), "build", "", strings.Fields(line)...)
		assert.Equal(t, out, outcome{stderr: "Error: --agent must be the agent of this session (\"me\"), got: you\n", code: exitFailure})
	}
}

func TestArgumentsOfAgentsAreLimited(t *testing.T) {
	s := hostStore(t)
	out := asAgent(t, s, "build", "", "fail", "mine", "--reason", strings.Repeat("x", maxArgument+1))
	assert.Equal(t, out, outcome{stderr: "Error: argument is longer than 262144 bytes\n", code: exitFailure})
	out = asAgent(t, s, "build", "", "create", strings.Repeat("x", 257), "T")
	assert.Equal(t, out, outcome{stderr: "Error: task ID is longer than 256 bytes\n", code: exitFailure})
}

func TestAgentClaims(t *testing.T) {
	s := hostStore(t)
	out := asAgent(t, s, "build", "", "claim", "open")
	assert.Equal(t, out.code, exitOK)
	assert.Assert(t, strings.Contains(out.stdout, "\nassignee: me\n"), out.stdout)
	assert.Assert(t, strings.Contains(out.stdout, "\nattempt: 1\n"), out.stdout)
	assert.Equal(t, asAgent(t, s, "build", "", "done", "open"), outcome{stdout: "done open\n"})
}

func TestStoreFromElsewhere(t *testing.T) {
	s := hostStore(t)
	run := func(io IO, args ...string) outcome {
		var stdout, stderr bytes.Buffer
		with := streams(&stdout, &stderr)
		with.Store, with.Specs, with.Attempts, with.Stdin = s, io.Specs, io.Attempts, strings.NewReader(`{"id":"p","t":"P","spec":"specs/a.md"}`)
		code := Run(t.Context(), args, with)
		return outcome{stdout.String(), stderr.String(), code}
	}
	assert.Equal(t, run(IO{}, "_get-scope"), outcome{stdout: "repo:acme/shop\nbranch:main\n"})
	out := run(IO{Attempts: map[string][]string{"mine": {"refs/a\x1b[2J"}, "other": {"refs/b"}}}, "show", "mine")
	assert.Assert(t, strings.HasSuffix(out.stdout, "\nAttempts:\n  refs/a\n"), out.stdout)
	assert.Equal(t, run(IO{Specs: []string{"a.md"}}, "plan-sync").code, exitOK)
	task, err := s.Show(t.Context(), "p")
	assert.NilError(t, err)
	assert.Equal(t, task.SpecRef, "a.md")
}

// otherDatabase is a branch with a database of its own.
type otherDatabase struct{ store *backlog.Store }

func (o otherDatabase) List(ctx context.Context) ([]backlog.Other, error) {
	tasks, err := o.store.List(ctx, backlog.Filter{})
	if len(tasks) == 0 {
		return nil, err
	}
	return []backlog.Other{{Scope: o.store.Scope(), Tasks: len(tasks)}}, err
}

func (o otherDatabase) Adopt(ctx context.Context, into *backlog.Store, _ backlog.Scope) (int64, error) {
	return into.AdoptFrom(ctx, o.store)
}

func TestAdoptFromAnotherDatabase(t *testing.T) {
	former := otherDatabase{hostStore(t)}
	for _, slug := range []string{"mine", "theirs"} {
		assert.NilError(t, former.store.Fail(t.Context(), slug, ""))
	}
	renamed, err := backlog.OpenHost(t.Context(), filepath.Join(t.TempDir(), "tasks.db"), backlog.Scope{Repo: "acme/shop", Branch: "renamed"})
	assert.NilError(t, err)
	defer func() { assert.NilError(t, renamed.Close()) }()
	run := func(args ...string) outcome {
		var stdout, stderr bytes.Buffer
		io := streams(&stdout, &stderr)
		io.Store, io.Former, io.Hints = renamed, former, true
		code := Run(t.Context(), args, io)
		return outcome{stdout.String(), stderr.String(), code}
	}
	hint := "Hint: take over the tasks of branch main of acme/shop (4) with \"docker ralph task adopt\""
	assert.Equal(t, AdoptHint(t.Context(), renamed, former), hint)
	assert.Equal(t, run("list"), outcome{stderr: hint + "\n"})
	assert.Equal(t, run("adopt"), outcome{stdout: "adopted 4 tasks of acme/shop, branch main\n"})
	assert.Equal(t, AdoptHint(t.Context(), renamed, former), "")
	assert.Equal(t, run("adopt"), outcome{stderr: "Error: no tasks of a branch that was renamed, or of another origin\n", code: exitFailure})
}
