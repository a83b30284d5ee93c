package run

import (
	"bytes"
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
)

func TestUnsetVariablesAreReported(t *testing.T) {
	var said bytes.Buffer
	h := host.Host{Stderr: &said, LookupEnv: func(name string) (string, bool) { return "", name == "EMPTY" }}
	cfg, err := config.Load(config.Sources{
		Getenv:    func(name string) string { return map[string]string{"RALPH_DOCKER_ENV": "MAY_BE_SET"}[name] },
		Overrides: config.Overrides{Env: []string{"NOT_SET", "EMPTY"}},
	})
	assert.NilError(t, err)
	warnUnset(h, cfg)
	assert.Equal(t, said.String(), "Warning: --env NOT_SET: the variable is not set\n")
}
