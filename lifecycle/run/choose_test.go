package run

import (
	"errors"
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// Without an engine, the reason why no microVM was used is a hint, unless there is
// no such program at all.
func TestNoEngineAndNoMicroVM(t *testing.T) {
	none := func(string) (host.API, host.Engine, error) {
		return nil, host.Engine{}, errors.New("failed to connect")
	}
	for why, want := range map[string][]string{
		"":                          nil,
		"no sbx; no docker sandbox": nil,
		"sbx is not logged in to Docker; no docker sandbox": {
			"no microVM was used instead: sbx is not logged in to Docker",
		},
	} {
		at := Choice{why: why, Request: projectimage.Request{Agent: "shell"}}
		err := atContainer(host.Host{}, &at, none)
		assert.Error(t, err, "failed to connect")
		assert.DeepEqual(t, hint.Of(err), want)
	}
}
