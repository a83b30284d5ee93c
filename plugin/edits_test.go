package plugin

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestRunOfADiff(t *testing.T) {
	for _, test := range []struct {
		args, rest []string
		run        int
		err        string
	}{
		{},
		{args: []string{"12"}, run: 12},
		{args: []string{"box"}, rest: []string{"box"}},
		{args: []string{"box1", "2"}, rest: []string{"box1"}, run: 2},
		{args: []string{"0"}, err: "invalid number of a run: the first one is 1"},
		{args: []string{"99999999999999999999"}, err: "invalid number of a run: the first one is 1"},
		{args: []string{"box", "two"}, err: `invalid number of a run "two"`},
	} {
		rest, run, err := splitRun(test.args)
		if test.err != "" {
			assert.Error(t, err, test.err)
			continue
		}
		assert.NilError(t, err)
		assert.Equal(t, run, test.run)
		assert.DeepEqual(t, append([]string{}, rest...), append([]string{}, test.rest...))
	}
}
