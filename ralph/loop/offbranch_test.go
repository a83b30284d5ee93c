package loop

import (
	"context"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

// The log, the line and the table of a run name what it has committed outside of the branch.
func TestCommitsOffTheBranchAreRecorded(t *testing.T) {
	const id = "0123456789012345678901234567890123456789"
	for _, tc := range []struct {
		name      string
		find, err error
		found     []string
	}{
		{"found", nil, nil, []string{id}},
		{"nothing", nil, nil, nil},
		{"unknown before", nil, errors.New("no branches"), nil},
		{"unknown after", errors.New("no branches"), nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked [][]string
			g := newGitLoop(t, []string{"b"}, `printf '{"commit":"abc"}' > $DIR/result; touch $BACKLOG/b`)
			g.Backlog = &reasonBacklog{resultBacklog{g.backlog}, g.dir()}
			g.OffBranch = func(context.Context) (func(context.Context, []string) ([]string, error), error) {
				return func(_ context.Context, named []string) ([]string, error) {
					asked = append(asked, named)
					return tc.found, tc.find
				}, tc.err
			}
			report, err := Run(t.Context(), g.Options)
			assert.NilError(t, err, g.out.String()+g.errs.String())
			assert.DeepEqual(t, report.Iterations[0].OffBranch, tc.found)
			if tc.err == nil {
				assert.DeepEqual(t, asked, [][]string{{"abc"}})
			}
			if tc.found != nil {
				assert.Check(t, cmp.Regexp(`(?m)^Iteration 1: .*\| not on the branch: 0123456 \|`, g.out.String()))
				assert.Check(t, cmp.Regexp(`(?m)^1 +b +done +not on the branch: 0123456 `, g.out.String()))
			}
			assert.Equal(t, tc.find != nil || tc.err != nil, g.errs.String() != "" && cmp.Contains(g.errs.String(), "Warning: no branches")().Success(), g.errs.String())
		})
	}
}
