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
