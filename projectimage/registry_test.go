package projectimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/docker/cli/cli/config/types"
	"github.com/moby/buildkit/session/auth/authprovider"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/icmd"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/e2e/registry"
)

// registryProcess is a registry, until it is killed.
func registryProcess(ctx context.Context) int {
	_, _ = fmt.Fprintln(os.Stderr, registry.Serve(ctx, os.Stdout, os.Getenv("RALPH_TEST_ARCH")))
	return 1
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// startRegistry runs this test binary as a registry in the engine's own network
// namespace: engines pull from their loopback address without TLS.
func (e *testEngine) startRegistry(t *testing.T) (address string) {
	t.Helper()
	self, err := os.Executable()
	assert.NilError(t, err)
	info := icmd.RunCommand("docker", "-H", e.host, "version", "--format", "{{.Server.Arch}}")
	info.Assert(t, icmd.Success)
	created := icmd.RunCommand("docker", "-H", e.host, "create", "--network", "host", "-e", roleVariable+"=registry",
		"-e", "RALPH_TEST_ARCH="+strings.TrimSpace(info.Stdout()), e.base, "/registry")
	created.Assert(t, icmd.Success)
	id := strings.TrimSpace(created.Stdout())
	t.Cleanup(func() { icmd.RunCommand("docker", "-H", e.host, "rm", "-f", id) })
	icmd.RunCommand("docker", "-H", e.host, "cp", self, id+":/registry").Assert(t, icmd.Success)
	icmd.RunCommand("docker", "-H", e.host, "start", id).Assert(t, icmd.Success)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		logs := icmd.RunCommand("docker", "-H", e.host, "logs", id)
		address = strings.TrimSpace(logs.Stdout())
		if address == "" {
			return poll.Continue("the registry says nothing: %s", logs.Stderr())
		}
		return poll.Success()
	})
	return address
}

func TestEnginePull(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		address := e.startRegistry(t)
		ref := address + "/team/tool:1"
		e.removeAfter(t, ref)
		b, out := e.builder(t)

		_, err := b.Ensure(t.Context(), Request{Image: ref})
		t.Log(err)
		assert.ErrorContains(t, err, `image "`+ref+`" is not on the engine and cannot be pulled: `)
		assert.ErrorContains(t, err, "no basic auth credentials")
		_, err = b.Ensure(t.Context(), Request{Agent: "shell", Base: ref})
		assert.ErrorContains(t, err, `base image "`+ref+`"`)
		assert.ErrorContains(t, err, "no basic auth credentials")

		b.Auth = func(_ context.Context, host string, _ []string, _ authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
			assert.Equal(t, host, address)
			return types.AuthConfig{Username: registry.User, Password: registry.Password, ServerAddress: address}, nil
		}
		got, err := b.Pull(t.Context(), ref, "")
		assert.NilError(t, err)
		assert.Equal(t, got.Ref, ref)
		assert.Assert(t, cmp.Regexp("^sha256:[0-9a-f]{64}$", got.ID))
		assert.Assert(t, cmp.Contains(out.String(), "Status: Downloaded newer image for "+ref))

		// A file is all that it has.
		_, err = b.Ensure(t.Context(), Request{Image: ref})
		assert.Assert(t, cmp.Regexp("cannot be used for a sandbox: no sh .*, no git .*, no file .*, no file ", err.Error()))

		// It is a base now; that it has no shell is the build's own failure.
		_, err = b.Ensure(t.Context(), Request{Agent: "shell", Base: ref})
		t.Log(err)
		var buildErr *BuildError
		assert.Assert(t, errors.As(err, &buildErr), "%v", err)
		assert.ErrorContains(t, err, ref)
	})
}
