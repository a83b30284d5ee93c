package cli

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/loop"
)

func TestParsePlanStatus(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		want       loop.Status
		err        string
	}{
		{"ours", "1 open, 2 active, 3 done, 4 blocked, 5 deleted\n", loop.Status{Open: 1, Active: 2, Done: 3, Blocked: 4}, ""},
		{"only what is needed", "12 open, 0 active", loop.Status{Open: 12}, ""},
		{"other words between", "7 tasks to do; 1 active (all of them leased); 30 done", loop.Status{Open: 7, Active: 1, Done: 30}, ""},
		{"blocked without done", "0 open, 0 active, 2 blocked", loop.Status{Blocked: 2}, ""},
		{"nothing", "", loop.Status{}, `plan-status printed ""`},
		{"words", "Error: no database", loop.Status{}, `plan-status printed "Error: no database"`},
		{"no active", "3 open", loop.Status{}, `plan-status printed "3 open"`},
		{"too many", "99999999999999999999 open, 0 active", loop.Status{}, "value out of range"},
		{"more lines", "0 open, 0 active\n5 open, 5 active", loop.Status{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parsePlanStatus(tc.line)
			assert.DeepEqual(t, got, tc.want)
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
		})
	}
}

func FuzzPlanStatus(f *testing.F) {
	for _, seed := range []string{"1 open, 2 active, 3 done, 4 blocked, 5 deleted\n", "0 open, 0 active", "x", "1\x00 active", "1 2 active 3 done"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		status, err := parsePlanStatus(line)
		if err != nil {
			assert.Equal(t, status, loop.Status{})
			return
		}
		assert.Assert(t, status.Open >= 0 && status.Active >= 0 && status.Done >= 0 && status.Blocked >= 0)
		assert.Assert(t, strings.Contains(line, " active"), "complete or not is read from a line that says it")
	})
}
