package loop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

func TestSomebodyElseKeepsTheTimeToo(t *testing.T) {
	tr := newTrial(t, agent.Plan, "true", nil)
	tr.MaxIterations, tr.Timeout = 2, time.Hour
	var asked []time.Duration
	tr.Deadline = func(d time.Duration) error {
		asked = append(asked, d)
		return errors.New("nobody keeps it")
	}
	_, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.DeepEqual(t, asked, []time.Duration{time.Hour + time.Minute, 0, time.Hour + time.Minute, 0})
	assert.Equal(t, strings.Count(tr.errs.String(), "nobody keeps it"), 1)
}
