package container_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	driver "github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// earlier is an engine on which an earlier version has made what holds networks.
type earlier struct {
	driver.API
	image string
}

func (e earlier) ContainerCreate(ctx context.Context, opts client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	if slices.Contains(opts.Config.Entrypoint, "hold") {
		if _, err := e.ImageTag(ctx, client.ImageTagOptions{Source: opts.Config.Image, Target: e.image}); err != nil {
			return client.ContainerCreateResult{}, err
		}
		opts.Config.Image = e.image
	}
	return e.API.ContainerCreate(ctx, opts)
}

// What holds the network of a sandbox can stay there when this program is
// rootReplaced by a newer one, whose wall is put in place then.
func TestPauseContainerOfAnotherVersion(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, m, left := newSuite(t, e), newMachine(t, e), tap(t)
		d := s.Driver.(*driver.Driver)
		image := "ralph-test-egress:" + nonce()
		t.Cleanup(func() {
			_, err := e.Client(t).ImageRemove(context.WithoutCancel(t.Context()), image, client.ImageRemoveOptions{})
			assert.Check(t, err)
		})
		d.API = earlier{d.API, image}
		sb, spec := walled(t, s, egress.Deny)
		secret := nonce()
		assert.Check(t, is.Len(open(try(t, d, sb, spec, waysOut(m, secret)...)), 0))
		assert.Check(t, !m.udp.contains(secret) && !left.contains(secret), "the firewall is there")
	})
}

// Rules are changed by what is run beside the holder: itself it cannot.
func TestPauseContainerHasNoCapabilities(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, api := newSuite(t, e), e.Client(t)
		sb, _ := walled(t, s, egress.Deny)
		out := beside(t, api, sb.Netns, "cat /proc/1/task/*/status")
		threads := strings.Count(out, "CapEff:")
		assert.Check(t, threads > 1, out)
		for _, none := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"} {
			assert.Check(t, is.Equal(strings.Count(out, none), threads), none)
		}
	})
}

// A new sandbox's wall is raised before its first command, also if what holds its
// network was started again meanwhile and has lost its rules.
func TestNewSandboxIsIsolatedBeforeItsFirstCommand(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("started again %t", again), func(t *testing.T) {
				t.Parallel()
				s, m, left := newSuite(t, e), newMachine(t, e), tap(t)
				d := s.Driver.(*driver.Driver)
				spec := s.NewSpec(t)
				spec.Egress.Policy.Mode, spec.ReadOnly = egress.Deny, true
				sb, err := d.Create(t.Context(), spec)
				assert.NilError(t, err)
				t.Cleanup(func() { assert.Check(t, d.Remove(context.WithoutCancel(t.Context()), sb)) })
				if again {
					_, err := e.Client(t).ContainerRestart(t.Context(), sb.Netns, client.ContainerRestartOptions{})
					assert.NilError(t, err)
				}
				assert.NilError(t, d.Start(t.Context(), sb))
				assert.NilError(t, d.Prepare(t.Context(), sb, spec))
				secret := nonce()
				assert.Check(t, is.Len(open(try(t, d, sb, spec, waysOut(m, secret)...)), 0))
				assert.Check(t, !m.udp.contains(secret) && !left.contains(secret), "the firewall is there")
			})
		}
	})
}

// beside runs a command that sees the processes of a container.
func beside(t *testing.T, api *client.Client, id, script string) string {
	t.Helper()
	made, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config:     &container.Config{Image: engines.BaseImage(), Entrypoint: []string{"sh", "-c", script}, AttachStdout: true},
		HostConfig: &container.HostConfig{PidMode: container.PidMode("container:" + id), NetworkMode: "none"},
	})
	assert.NilError(t, err)
	t.Cleanup(func() { remove(t, api, made.ID) })
	conn, err := api.ContainerAttach(t.Context(), made.ID, client.ContainerAttachOptions{Stream: true, Stdout: true})
	assert.NilError(t, err)
	defer conn.Close()
	_, err = api.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{})
	assert.NilError(t, err)
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, conn.Reader)
	assert.NilError(t, err)
	return out.String()
}
