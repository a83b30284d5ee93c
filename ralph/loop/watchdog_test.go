package loop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

func TestWatchdogIsArmedForEachRun(t *testing.T) {
	tr := newTestLoop(t, agent.Plan, "true", nil)
	tr.MaxIterations, tr.Timeout = 2, time.Hour
	var armed []time.Duration
	tr.Watchdog = func(d time.Duration) error {
		armed = append(armed, d)
		return errors.New("no watchdog")
	}
	_, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.DeepEqual(t, armed, []time.Duration{time.Hour + time.Minute, 0, time.Hour + time.Minute, 0})
	assert.Equal(t, strings.Count(tr.errs.String(), "no watchdog"), 1)
}
