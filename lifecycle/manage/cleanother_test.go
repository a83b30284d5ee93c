package manage

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// theirEngine is an engine with the sandbox of another client. It records what is removed.
type theirEngine struct {
	host.API
	processes int
	removed   []string
}

func (e *theirEngine) DaemonHost() string { return "unix:///here" }

func (e *theirEngine) ContainerTop(context.Context, string, client.ContainerTopOptions) (client.ContainerTopResult, error) {
	return client.ContainerTopResult{Processes: slices.Repeat([][]string{{"1"}}, e.processes)}, nil
}

func (e *theirEngine) ContainerRemove(_ context.Context, id string, _ client.ContainerRemoveOptions) (res client.ContainerRemoveResult, err error) {
	e.removed = append(e.removed, id)
	return res, nil
}

func (e *theirEngine) VolumeRemove(_ context.Context, name string, _ client.VolumeRemoveOptions) (res client.VolumeRemoveResult, err error) {
	e.removed = append(e.removed, name)
	return res, nil
}

func (e *theirEngine) ContainerList(context.Context, client.ContainerListOptions) (res client.ContainerListResult, err error) {
	res.Items = []container.Summary{{ID: "proxy", Names: []string{"/box.egress"}, Labels: map[string]string{
		"io.github.docker-ralph.sandbox": "box", "io.github.docker-ralph.client": "THEIRS",
	}}}
	return res, nil
}

func (e *theirEngine) NetworkList(context.Context, client.NetworkListOptions) (res client.NetworkListResult, err error) {
	return res, nil
}

func (e *theirEngine) VolumeList(context.Context, client.VolumeListOptions) (res client.VolumeListResult, err error) {
	return res, nil
}

func ofAnotherClient(root string, api host.API) host.Located {
	sb := lifecycle.Sandbox{Name: "box", ID: "id", State: lifecycle.Running, Root: root, Client: "THEIRS", OtherClient: "una@laptop", Egress: "deny"}
	return host.Located{Sandbox: sb, Backend: host.Backend{Kind: "container", API: api, Unusable: lifecycle.OfOtherClient(sb)}}
}

// Only with --discard-commits, and only while nothing runs in it.
func TestRemoveSandboxOfAnotherClient(t *testing.T) {
	for _, tc := range []struct {
		name      string
		processes int
		discard   bool
		err       string
	}{
		{"kept", 1, false, "keeping sandbox box: sandbox box belongs to another client, una@laptop"},
		{"in use", 2, true, "keeping sandbox box: a command of another client is running in it"},
		{"removed", 1, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			h := host.Host{StateDir: t.TempDir(), Stderr: &stderr}
			api := &theirEngine{processes: tc.processes}
			err := RemoveSandbox(t.Context(), h, ofAnotherClient(t.TempDir(), api), tc.discard)
			if tc.err != "" {
				assert.Error(t, err, tc.err)
				assert.Assert(t, is.Len(api.removed, 0))
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, api.removed, []string{"id", "proxy", "ralph-git-box", "ralph-clone-box"})
			assert.Check(t, is.Contains(stderr.String(), "removed sandbox box of another client, una@laptop"))
		})
	}
}

// The log in the directory of that name is of this machine.
func TestDescribeReadsNothingOfAnotherClient(t *testing.T) {
	top := t.TempDir()
	var stderr bytes.Buffer
	h, l := host.Host{StateDir: t.TempDir(), Stderr: &stderr}, ofAnotherClient(top, nil)
	_, err := runlog.Create(h.LogsOf(l.Sandbox), runlog.Loop{Mode: "build", Started: time.Now()})
	assert.NilError(t, err)
	s := describe(t.Context(), h, l, true)
	assert.Equal(t, s.OtherClient, "una@laptop")
	assert.Equal(t, s.State, "running")
	assert.Equal(t, s.Activity, Unknown)
	assert.Assert(t, s.Loop == nil)
	assert.Equal(t, stderr.String(), "")

	s = describe(t.Context(), host.Host{StateDir: t.TempDir(), Stderr: &stderr}, ofAnotherClient("/gone", nil), true)
	assert.Assert(t, !s.Gone, "it may be on another machine")
}
