package loop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

// newCheckedLoop is a loop whose first run works on the first task, and so on. Its worktree has the
// ignored file deps.
func newCheckedLoop(t *testing.T, check string, tasks ...string) *gitLoop {
	t.Helper()
	var scripts []string
	for _, task := range tasks {
		scripts = append(scripts, commit(task)+finished(task))
	}
	g := newGatedLoop(t, tasks, scripts...)
	g.Checks = []string{check}
	assert.NilError(t, os.WriteFile(filepath.Join(g.Dir, ".git", "info", "exclude"), []byte("deps\n"), 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(g.Dir, "deps"), nil, 0o600))
	return g
}

// A check that cannot pass is not the fault of a task, and the user decides about it.
func TestBrokenChecks(t *testing.T) {
	const same = "fails the same way on commit "
	for _, tc := range []struct {
		name, check string
		runs        int // before the end
		fault       string
	}{
		{"does not end", "tail -f /dev/null", 2, "took longer than 1s"},
		{"waits for input that never comes", "sleep 600 & wait", 2, "took longer than 1s"},
		{"fails before as well", "echo 12 failures; exit 2", 3, same},
		{"fails before as well, without a word", "false", 3, same},
		{"names its folder", `echo "$PWD/x: no such file"; exit 1`, 3, same},
		{"fails before as well, with ignored files", "test -e deps && exit 3", 3, same},
		{"fails before as well, at random", `echo "$$: $(date +%N) $(mktemp -u) $(head -c 8 /dev/urandom | od -An -tx8)"; exit 1`, 3, same},
		{"fails before as well, at length", `awk -v s=$$ 'BEGIN { srand(s); for (; i < 9000; i++) printf "%d lines are too long\n", 10 ^ (rand() * 9); exit 1 }'`, 3, same},
		{"fails since", "test ! -e a.txt", 0, ""},
		{"fails in another way since", "test -e a.txt && echo new || echo old; exit 1", 0, ""},
		{"fails with another code since", "test ! -e a.txt || exit 2; exit 1", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newCheckedLoop(t, tc.check, "a", "b", "c")
			if strings.Contains(tc.fault, "longer") {
				g.Bounds.CheckTimeout = time.Second
			}
			report, err := Run(t.Context(), g.Options)
			notes := g.backlog.notes
			if tc.runs == 0 {
				assert.Assert(t, report.Stop != BrokenCheck)
				assert.Check(t, cmp.Contains(notes[0], "reopen a: check"))
				return
			}
			assert.Equal(t, report.Stop, BrokenCheck)
			assert.Equal(t, report.Stop.ExitCode(), 13)
			assert.ErrorContains(t, err, "no task can be checked: the check ")
			assert.ErrorContains(t, err, tc.fault)
			assert.Check(t, cmp.Contains(hint.Of(err)[0], "under [checks]"))
			assert.Equal(t, len(report.Iterations), tc.runs)
			assert.Equal(t, len(notes), tc.runs, "nothing else happened to the tasks: %v", notes)
			last := string("abc"[tc.runs-1])
			assert.Check(t, cmp.Contains(notes[tc.runs-1], "park "+last+": The task is finished, but the check "))
			assert.DeepEqual(t, report.Iterations[tc.runs-1].Asked, []string{last})
			assert.Check(t, cmp.Contains(g.errs.String(), ": not counted against "+last+"\n"))
			assert.Equal(t, g.git("rev-parse", "HEAD"), g.start)
			for _, it := range report.Iterations {
				assert.Check(t, it.Attempt != "", "what run %d committed is kept", it.N)
			}
		})
	}
}

// The user decides once about a failure, for all tasks and for later loops.
func TestAnswerAboutACheckIsRemembered(t *testing.T) {
	const check = "echo Error 7; exit 2"
	question := func(command, commit, why string) string {
		return "The task is finished, but the check \"" + command + "\" fails the same way on commit " + commit + ", the last accepted one (exit code 2: " + why + "). Is the check right?"
	}
	for _, tc := range []struct {
		name, asked, answer string
		again               bool
	}{
		{"the task must fix it", question(check, "0123abc", "Error 9"), checkAnswers[1], false},
		{"by its number", question(check, "0123abc", "Error 9"), "2", false},
		{"in other words", question(check, "0123abc", "Error 9"), "Repair the Makefile", false},
		{"fixed", question(check, "0123abc", "Error 9"), checkAnswers[0], true},
		{"fixed, by its number", question(check, "0123abc", "Error 9"), "1", true},
		{"about another check", question("echo Error 8; exit 2", "0123abc", "Error 9"), checkAnswers[1], true},
		{"about another failure", question(check, "0123abc", "no such file"), checkAnswers[1], true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newCheckedLoop(t, check, "a", "b", "c")
			g.backlog.tasks["z"] = session.Task{Status: statusDone, Answered: []session.Question{{Text: tc.asked, Options: checkAnswers, Answer: tc.answer}}}
			report, err := Run(t.Context(), g.Options)
			if tc.again {
				assert.Equal(t, report.Stop, BrokenCheck)
				assert.Check(t, cmp.Contains(g.backlog.notes[1], "park b: "+question(check, short(g.start), "Error 7")))
				return
			}
			assert.ErrorContains(t, err, "unfinished tasks: a, b, c")
			for i, slug := range []string{"a", "b", "c"} {
				assert.Check(t, cmp.Contains(g.backlog.notes[i], "reopen "+slug+": check"))
			}
		})
	}
}

// It is remembered within a loop, and about a check that takes too long.
func TestAnswerAboutASlowCheck(t *testing.T) {
	g := newCheckedLoop(t, "sleep 600", "a", "b", "c")
	g.Bounds.CheckTimeout = time.Second
	g.backlog.park = func(task *session.Task) {
		task.Status, task.Answered, task.Question = statusOpen, []session.Question{{Text: task.Question.Text, Answer: checkAnswers[1]}}, nil
	}
	_, err := Run(t.Context(), g.Options)
	assert.ErrorContains(t, err, "unfinished tasks: b, c")
	assert.Check(t, cmp.Contains(g.backlog.notes[0], "park a: "))
	assert.Check(t, cmp.Contains(g.backlog.notes[1], "reopen b: check"))
	assert.Check(t, cmp.Contains(g.backlog.notes[2], "reopen c: check"))
}

// Where the loop must not switch commits, it does not know whether a check failed before.
func TestFailedCheckIsNotComparedBesideOthers(t *testing.T) {
	for name, set := range map[string]func(*gitLoop){
		"live":            func(g *gitLoop) { g.Reset = nil },
		"another session": func(g *gitLoop) { g.OtherSession = func() string { return "ralph shell" } },
	} {
		t.Run(name, func(t *testing.T) {
			g := newCheckedLoop(t, "echo run >>$DIR/checks; exit 1", "a", "b", "c")
			set(g)
			report, err := Run(t.Context(), g.Options)
			assert.ErrorContains(t, err, "unfinished tasks: a, b, c")
			assert.Equal(t, report.Stop, Unfinished)
			for i, slug := range []string{"a", "b", "c"} {
				assert.Check(t, cmp.Contains(g.backlog.notes[i], "reopen "+slug+": check"))
			}
			checks, err := os.ReadFile(filepath.Join(g.dir(), "checks"))
			assert.NilError(t, err)
			assert.Equal(t, strings.Count(string(checks), "run"), 3)
		})
	}
}

// A later task may repair the check.
func TestRepairedCheck(t *testing.T) {
	g := newCheckedLoop(t, "test -e c.txt", "a", "b", "c")
	report, err := Run(t.Context(), g.Options)
	assert.ErrorContains(t, err, "unfinished tasks: a")
	assert.DeepEqual(t, outcomes(report), []string{outcomeUnchecked + " a", outcomeQuestion + " b", outcomeDone + " c"})
	assert.Equal(t, g.git("ls-files"), "c.txt")
}

// Tests run in any order, and print what differs each time.
func TestSameFailure(t *testing.T) {
	const first = `
=== RUN   TestLogin
login_test.go:31: dial tcp 127.0.0.1:41873: connect: connection refused
2026-11-30T11:45:02.123Z pid=4711 id=3f2a9c71 0xc0001a2b40 request 9b2d6f0e-58aa-4c1b-9d3f-0c1de0a7b111
cannot open /tmp/tmp.aBcDefGhIj/socket: no such file
--- FAIL: TestLogin (850 ms)
--- FAIL: TestLogout (0.31s)
exit status 1, sandbox web-x7k2q9 in 9.1 seconds
`
	const second = `
=== RUN   TestLogin
login_test.go:31: dial tcp 127.0.0.1:5: connect: connection refused
2026-12-01T00:00:00Z pid=9 id=7e0b55d2 0xc00000 request 00000000-0000-4000-8000-000000000000
--- FAIL: TestLogout (1.2 s)
cannot open /tmp/tmp.kLmnOpQrSt/socket: no such file
--- FAIL: TestLogin (2s)
exit status 1, sandbox web-p3m8w1 in 12 seconds
`
	for _, tc := range []struct {
		name, second string
		same         bool
	}{
		{"same", first, true},
		{"another run", second, true},
		{"colors", strings.ReplaceAll(second, "FAIL", "\x1b[31mFAIL\x1b[0m"), true},
		{"another test", strings.ReplaceAll(second, "TestLogout", "TestSession"), false},
		{"one test fewer", strings.ReplaceAll(second, "--- FAIL: TestLogout (1.2 s)\n", ""), false},
		{"another file", strings.ReplaceAll(second, "login_test.go", "logout_test.go"), false},
		{"silent", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const how = "failed with exit code 1"
			assert.Equal(t, failedCheck{how, first}.equal(failedCheck{how, tc.second}), tc.same, "%s\n%s", withoutNoise(first), withoutNoise(tc.second))
			assert.Check(t, !failedCheck{how, first}.equal(failedCheck{"failed with exit code 2", tc.second}))
		})
	}
}
