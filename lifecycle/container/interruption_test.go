package container

import (
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

func TestInterruption(t *testing.T) {
	noon := time.Date(2031, 2, 3, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return noon.Add(d).Format(time.RFC3339Nano) }
	for _, tc := range []struct {
		name  string
		state *container.State
		want  lifecycle.Interruption
	}{
		{"it runs as before", &container.State{Running: true, StartedAt: at(-time.Minute)}, lifecycle.Interruption{}},
		{"it runs again", &container.State{Running: true, StartedAt: at(time.Minute)}, lifecycle.Interruption{What: "was restarted"}},
		{"docker stop", &container.State{}, lifecycle.Interruption{What: "was stopped", Asked: true}},
		{"docker stop, after an agent ran out of memory", &container.State{OOMKilled: true}, lifecycle.Interruption{What: "was stopped", Asked: true}},
		{"docker kill", &container.State{ExitCode: 137}, lifecycle.Interruption{What: "was killed"}},
		{"memory", &container.State{ExitCode: 137, OOMKilled: true}, lifecycle.Interruption{What: "ran out of memory"}},
		{"a crash", &container.State{ExitCode: 2}, lifecycle.Interruption{What: "ended with exit code 2"}},
		{"an engine that says nothing", nil, lifecycle.Interruption{}},
	} {
		assert.Equal(t, interruption(tc.state, noon), tc.want, tc.name)
	}
}
