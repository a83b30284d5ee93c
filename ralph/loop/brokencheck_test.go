package loop

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

// A check that cannot pass is not the fault of a task, and the user decides about it.
func TestBrokenChecks(t *testing.T) {
	for _, tc := range []struct {
		name, check string
		runs        int // before the end
		fault       string
	}{
		{"does not end", "tail -f /dev/null", 2, "took longer than 1s"},
		{"waits for input that never comes", "sleep 600 & wait", 2, "took longer than 1s"},
		{"fails before as well", "echo 12 failures; exit 2", 3, "fails the same way on commit c0ffee"},
		{"fails before as well, without a word", "false", 3, "fails the same way on commit c0ffee"},
		{"names its folder", `echo "$PWD/x: no such file"; exit 1`, 3, "fails the same way on commit c0ffee"},
		{"fails since", "test -e accepted", 0, ""},
		{"fails in another way since", "test -e accepted && echo old || echo new; exit 1", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFileBacklog(t, "a", "b", "c")
			tr := newFileLoop(t, `for t in a b c; do [ -e $DIR/$t ] || { touch $DIR/$t $BACKLOG/$t; exit; }; done`, s)
			tr.Checks, tr.MaxIterations = []string{tc.check}, 3
			if strings.Contains(tc.fault, "longer") {
				tr.Bounds.CheckTimeout = time.Second
			}
			before := t.TempDir()
			assert.NilError(t, os.WriteFile(filepath.Join(before, "accepted"), nil, 0o600))
			tr.Clone = func(_ context.Context, commit string) (string, func(), error) {
				assert.Check(t, cmp.Equal(commit, "c0ffee"))
				return before, func() {}, nil
			}
			report, err := Run(t.Context(), tr.Options)
			if tc.runs == 0 {
				assert.Assert(t, report.Stop != BrokenCheck)
				assert.Check(t, cmp.Contains(s.notes[0], "reopen a: check"))
				return
			}
			assert.Equal(t, report.Stop, BrokenCheck)
			assert.Equal(t, report.Stop.ExitCode(), 13)
			assert.ErrorContains(t, err, "no task can be checked: the check ")
			assert.ErrorContains(t, err, tc.fault)
			assert.Check(t, cmp.Contains(hint.Of(err)[0], "under [checks]"))
			assert.Equal(t, len(report.Iterations), tc.runs)
			assert.Equal(t, len(s.notes), tc.runs, "nothing else happened to the tasks: %v", s.notes)
			last := string("abc"[tc.runs-1])
			assert.Check(t, cmp.Contains(s.notes[tc.runs-1], "park "+last+": The task is finished, but the check "))
			assert.DeepEqual(t, report.Iterations[tc.runs-1].Asked, []string{last})
			assert.Check(t, cmp.Contains(tr.errs.String(), ": not counted against "+last+"\n"))
		})
	}
}

// A later task may repair the check.
func TestRepairedCheck(t *testing.T) {
	s := newFileBacklog(t, "a", "b")
	tr := newFileLoop(t, `n=$(cat $DIR/n 2>/dev/null); echo $((n+1)) >$DIR/n; [ $((n)) = 2 ] || { touch $BACKLOG/a; exit; }; touch $BACKLOG/b $DIR/repaired`, s)
	tr.Checks = []string{"test -e $DIR/repaired"}
	tr.Clone = func(context.Context, string) (string, func(), error) { return t.TempDir(), func() {}, nil }
	report, err := Run(t.Context(), tr.Options)
	assert.Error(t, err, "only questions are left: a")
	assert.Equal(t, report.Stop, Questions)
	assert.Equal(t, report.Iterations[0].Outcome, outcomeUnchecked)
	assert.Equal(t, report.Iterations[2].Outcome, outcomeDone)
}
