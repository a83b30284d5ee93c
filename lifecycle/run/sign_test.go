package run

import (
	"bytes"
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

func TestWhereCommitsAreNotSigned(t *testing.T) {
	for _, tc := range []struct {
		name   string
		sign   bool
		driver lifecycle.Driver
		clone  bool
		say    string
	}{
		{"not asked for", false, &container.Driver{}, false, ""},
		{"a microVM", true, &listed{}, false, "only containers"},
		{"a remote engine", true, &container.Driver{Host: "tcp://x"}, true, "sockets of this machine can only be mounted"},
		{"the user's own git directory", true, &container.Driver{}, false, `it needs a clone (sandbox.workspace = "clone")`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var cfg config.Effective
			cfg.Sandbox.Sign = tc.sign
			var stderr bytes.Buffer
			in := Target{Choice: Choice{Backend: host.Backend{Driver: tc.driver}}, cfg: cfg}
			spec := lifecycle.Spec{Clone: tc.clone}
			s, err := signs(t.Context(), host.Host{Stderr: &stderr, StateDir: t.TempDir()}, in, tc.clone, &spec)
			assert.NilError(t, err)
			assert.Assert(t, s == nil && spec.SignDir == "")
			if tc.say == "" {
				assert.Equal(t, stderr.String(), "")
				return
			}
			assert.Check(t, is.Contains(stderr.String(), "Warning: sandbox.sign has no effect, and commits are not signed: "+tc.say))
		})
	}
}
