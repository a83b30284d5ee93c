package loop

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// A run that has filled /tmp costs itself alone: the next one finds it empty, unless
// another session may have filled it.
func TestTemporaryFilesAreRemovedBetweenRuns(t *testing.T) {
	for _, tc := range []struct {
		name, other, program string
		runs                 int
		err                  string
	}{
		{name: "failed run", program: "touch $DIR/temp; exit 1", runs: 2, err: "the agent claude failed: exited with code 1: /tmp is full (1GiB)"},
		{name: "succeeded run", program: "touch $DIR/temp", runs: 2},
		{name: "other session", other: "ralph shell", program: "touch $DIR/temp; exit 1", runs: 1, err: "starting the next run: /tmp is full (1GiB)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTestLoop(t, agent.Plan, script(tc.program), nil)
			temp := filepath.Join(tr.dir(), "temp")
			tr.MaxIterations = 2
			tr.OtherSession = func() string { return tc.other }
			tr.TempFiles = func() (clean func() error) {
				return func() error { return os.RemoveAll(temp) }
			}
			tr.FullTemp = func() (reason, remedy string) {
				if _, err := os.Stat(temp); err != nil {
					return "", ""
				}
				return "/tmp is full (1GiB)", "raise the limit"
			}
			report, err := Run(t.Context(), tr.Options)
			assert.Equal(t, len(report.Iterations), tc.runs)
			if tc.err == "" {
				assert.NilError(t, err)
				return
			}
			assert.Error(t, err, tc.err)
			assert.Assert(t, cmp.Contains(tr.errs.String(), "Hint: raise the limit\n"))
		})
	}
}
