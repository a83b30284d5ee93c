package host

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/scopes"
)

var (
	laptop = Engine{Context: "default", Host: "unix:///var/run/docker.sock"}
	big    = Engine{Context: "big", Host: "ssh://big"}
	gpu    = Engine{Host: "tcp://gpu:2376", TLS: EngineTLS{CA: "/ca.pem"}}
)

// fakeEngine is an engine with at most one container and one volume.
type fakeEngine struct {
	API
	engine    Engine
	container string
	volume    string
	client    string // that has created the container
	broken    error
}

func (f *fakeEngine) DaemonHost() string { return f.engine.Host }

func (f *fakeEngine) missing() error {
	if f.broken != nil {
		return f.broken
	}
	return errdefs.ErrNotFound
}

func (f *fakeEngine) ContainerInspect(_ context.Context, name string, _ client.ContainerInspectOptions) (client.ContainerInspectResult, error) {
	if name != f.container {
		return client.ContainerInspectResult{}, f.missing()
	}
	return client.ContainerInspectResult{Container: container.InspectResponse{
		ID: "id", Name: "/" + name, Config: &container.Config{Labels: f.labels()},
		State: &container.State{Status: container.StateRunning}, HostConfig: &container.HostConfig{},
	}}, nil
}

func (f *fakeEngine) ContainerList(context.Context, client.ContainerListOptions) (list client.ContainerListResult, err error) {
	if f.container != "" {
		list.Items = []container.Summary{{ID: "id", Names: []string{"/" + f.container}, Labels: f.labels(), State: container.StateRunning}}
	}
	return list, f.broken
}

func (f *fakeEngine) VolumeInspect(_ context.Context, name string, _ client.VolumeInspectOptions) (res client.VolumeInspectResult, err error) {
	if name != f.volume {
		return res, f.missing()
	}
	res.Volume.Labels = labelsOf("")
	return res, nil
}

func (f *fakeEngine) Info(context.Context, client.InfoOptions) (client.SystemInfoResult, error) {
	return client.SystemInfoResult{}, f.broken
}

func (f *fakeEngine) labels() map[string]string {
	l := labelsOf(f.container)
	l[engine.LabelClient] = f.client
	return l
}

func labelsOf(sandbox string) map[string]string {
	return map[string]string{engine.LabelCreatedBy: engine.CreatedBy, engine.LabelSandbox: sandbox, engine.LabelPrefix + "worktree": "/src"}
}

// onLaptop is a host with other engines.
func onLaptop(t *testing.T, others ...*fakeEngine) (Host, *bytes.Buffer) {
	t.Helper()
	var stderr bytes.Buffer
	return Host{
		StateDir: t.TempDir(), Stderr: &stderr, Selected: laptop,
		Engine: func() (API, error) { return &fakeEngine{engine: laptop}, nil },
		ConnectTo: func(_ context.Context, e Engine) (API, error) {
			for _, other := range others {
				if other.engine.Same(e) {
					return other, nil
				}
			}
			return nil, errors.New("no route to host")
		},
	}, &stderr
}

// markKnown writes the driver's record of a sandbox.
func markKnown(t *testing.T, h Host, name string) {
	t.Helper()
	assert.NilError(t, scopes.Section[map[string]string]("container").Write(h.StateDir, name, map[string]string{"id": "id"}))
}

func TestEngineSame(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b Engine
		same bool
	}{
		{"a context and its address", big, Engine{Host: "ssh://big"}, true},
		{"a trailing slash", big, Engine{Host: "ssh://big/"}, true},
		{"a context that was changed", big, Engine{Context: "big", Host: "ssh://other"}, false},
		{"no engine is known", Engine{}, Engine{}, true},
		{"another engine", big, laptop, false},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.a.Same(tc.b), tc.same) })
	}
}

func TestEngineRecordSurvivesRoundTrip(t *testing.T) {
	h, _ := onLaptop(t)
	all, err := h.EngineRecords()
	assert.NilError(t, err)
	assert.Equal(t, len(all), 0)
	want := NewEngineRecord(gpu, lifecycle.Spec{Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}, Root: "/src", MainRoot: "/src", Agent: "claude", Private: true})
	assert.NilError(t, h.SaveEngine("box", want))
	assert.NilError(t, scopes.Section[string]("engine").Write(h.StateDir, "damaged", "unexpected"))
	all, err = h.EngineRecords()
	assert.NilError(t, err)
	assert.DeepEqual(t, all, map[string]EngineRecord{"box": want})
	assert.ErrorContains(t, h.SaveEngine("box", EngineRecord{Engine: big}), "it was moved to engine tcp://gpu:2376")
	assert.NilError(t, h.ForgetEngineOn("box", big))
	_, found := h.EngineRecord("box")
	assert.Assert(t, found)
	assert.NilError(t, h.ForgetEngineOn("box", gpu))
	assert.NilError(t, h.ForgetEngine("box"))
	_, found = h.EngineRecord("box")
	assert.Assert(t, !found)
}

func TestEngineOfFollowsTheRecord(t *testing.T) {
	for _, tc := range []struct {
		name       string
		record     *Engine
		selectedBy string
		known      bool
		here       string      // sandbox of the selected engine
		other      *fakeEngine // nil if it cannot be reached
		want       Engine
		err, hint  string
		forgotten  bool
	}{
		{name: "no record", want: laptop},
		{name: "on the selected engine", record: &Engine{Host: laptop.Host}, selectedBy: "DOCKER_HOST", want: laptop},
		{name: "on another engine", record: &big, known: true, other: &fakeEngine{}, want: big},
		{name: "not prepared yet", record: &big, other: &fakeEngine{container: "box"}, want: big},
		{name: "its git volume was kept", record: &big, other: &fakeEngine{volume: "ralph-git-box"}, want: big},
		{name: "another client has the name now", record: &big, other: &fakeEngine{container: "box", client: "THEIRS"}, want: laptop, forgotten: true},
		{name: "removed by hand before it was prepared", record: &big, other: &fakeEngine{}, want: laptop, forgotten: true},
		{
			name: "an option selects another engine", record: &big, known: true, selectedBy: "--context", other: &fakeEngine{container: "box"},
			err: "sandbox box is on engine big", hint: `run "docker --context big ralph ...", or move it with --move`,
		},
		{
			name: "an option selects another engine than an address", record: &gpu, known: true, selectedBy: "--host", other: &fakeEngine{container: "box"},
			err: "sandbox box is on engine tcp://gpu:2376", hint: `run "docker --host tcp://gpu:2376 ralph ...", or move it with --move`,
		},
		{
			name: "a variable selects another engine", record: &big, known: true, selectedBy: "DOCKER_HOST", other: &fakeEngine{container: "box"},
			err: "sandbox box is on engine big", hint: "unset DOCKER_HOST, or move it with --move",
		},
		{name: "on the selected engine, with another address", record: &big, known: true, selectedBy: "--context", here: "box", other: &fakeEngine{container: "box"}, want: laptop},
		{name: "an address does not exist any more", record: &big, known: true, here: "box", want: laptop},
		{name: "removed by hand, and another engine is selected", record: &big, known: true, selectedBy: "--context", other: &fakeEngine{}, want: laptop, forgotten: true},
		{
			name: "cannot be reached", record: &big, known: true,
			err:  "sandbox box is unreachable: cannot connect to engine big: no route to host",
			hint: `if the engine is gone, forget the sandbox with "docker ralph clean --discard-commits box"`,
		},
		{
			name: "does not answer", record: &big, other: &fakeEngine{broken: errors.New("broken pipe")},
			err: "looking up sandbox box on engine big: inspecting ",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var others []*fakeEngine
			if tc.other != nil {
				tc.other.engine = *tc.record
				others = append(others, tc.other)
			}
			h, _ := onLaptop(t, others...)
			h.SelectedBy = tc.selectedBy
			h.Engine = func() (API, error) { return &fakeEngine{engine: laptop, container: tc.here}, nil }
			if tc.record != nil {
				assert.NilError(t, h.SaveEngine("box", EngineRecord{Engine: *tc.record}))
			}
			if tc.known {
				markKnown(t, h, "box")
			}
			api, e, err := h.EngineOf(t.Context(), "box", h.Engine)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				assert.Equal(t, strings.Join(hint.Of(err), "\n"), tc.hint)
				return
			}
			assert.NilError(t, err)
			assert.Assert(t, e.Same(tc.want))
			assert.Equal(t, api.DaemonHost(), tc.want.Host)
			_, found := h.EngineRecord("box")
			assert.Equal(t, found, tc.record != nil && !tc.forgotten)
		})
	}
}

func TestSandboxesAsksAllRecordedEngines(t *testing.T) {
	h, stderr := onLaptop(t, &fakeEngine{engine: gpu, container: "on-gpu"})
	h.Engine = func() (API, error) { return &fakeEngine{engine: laptop, container: "here"}, nil }
	for name, e := range map[string]Engine{"on-gpu": gpu, "on-big": big, "here": laptop} {
		assert.NilError(t, h.SaveEngine(name, EngineRecord{Engine: e, Root: "/src", Agent: "claude"}))
	}
	all, err := h.Sandboxes(t.Context(), h.Engine)
	assert.NilError(t, err)
	var found []string
	for _, l := range all {
		found = append(found, l.Sandbox.Name+" "+string(l.Sandbox.State)+" "+l.Backend.Engine.String())
	}
	assert.DeepEqual(t, found, []string{"here running default", "on-big unknown big", "on-gpu running tcp://gpu:2376"})
	assert.Equal(t, stderr.String(), "Warning: cannot connect to engine big: no route to host\n")
	assert.Equal(t, all[1].Sandbox.Agent, "claude")
	assert.Error(t, all[1].Backend.Unusable, "cannot connect to engine big")
	_, err = all[1].Backend.Driver.Busy(t.Context(), all[1].Sandbox)
	assert.Error(t, err, "cannot connect to engine big")
	assert.Equal(t, all[2].Backend.API.DaemonHost(), gpu.Host)
}

// The sandbox of another client is listed and found, but cannot be used.
func TestSandboxesOfAnotherClient(t *testing.T) {
	const refused = "sandbox box belongs to another client, THEIRS"
	h, _ := onLaptop(t, &fakeEngine{engine: big, container: "box"})
	h.Engine = func() (API, error) { return &fakeEngine{engine: laptop, container: "box", client: "THEIRS"}, nil }
	l, err := h.Locate(t.Context(), "box")
	assert.NilError(t, err)
	list, err := h.Sandboxes(t.Context(), h.Engine)
	assert.NilError(t, err)
	selected, err := h.Select(t.Context(), Here{}, []string{"box"})
	assert.NilError(t, err)
	for _, found := range [][]Located{{l}, list, selected} {
		assert.Assert(t, is.Len(found, 1))
		assert.Equal(t, found[0].Sandbox.State, lifecycle.Running)
		assert.Error(t, found[0].Backend.Unusable, refused)
		assert.Error(t, found[0].Backend.Driver.Stop(t.Context(), found[0].Sandbox), refused)
	}
	assert.Assert(t, !h.Moved(lifecycle.Sandbox{Root: "/gone", OtherClient: "THEIRS"}, gitrepo.Worktree{Root: "/src"}), "it is not seen here")

	// Ours has the same name on another engine.
	assert.NilError(t, h.SaveEngine("box", EngineRecord{Engine: big}))
	selected, err = h.Select(t.Context(), Here{}, []string{"box"})
	assert.NilError(t, err)
	assert.NilError(t, selected[0].Backend.Unusable)
	assert.Assert(t, selected[0].Backend.Engine.Same(big))
}

func TestSandboxesListsAnEngineWithTwoAddressesOnce(t *testing.T) {
	h, _ := onLaptop(t, &fakeEngine{engine: gpu, container: "box"})
	for _, tc := range []struct {
		name string
		here string
		want Engine
	}{{"on the selected engine", "box", laptop}, {"on another one", "", gpu}} {
		t.Run(tc.name, func(t *testing.T) {
			h.Engine = func() (API, error) { return &fakeEngine{engine: laptop, container: tc.here}, nil }
			for name, e := range map[string]Engine{"box": big, "other": gpu} { // big cannot be reached
				assert.NilError(t, h.SaveEngine(name, EngineRecord{Engine: e}))
			}
			markKnown(t, h, "box")
			all, err := h.Sandboxes(t.Context(), h.Engine)
			assert.NilError(t, err)
			assert.Equal(t, len(all), 1)
			assert.Assert(t, all[0].Backend.Engine.Same(tc.want), "%s", all[0].Backend.Engine)
		})
	}
}

func TestSandboxesNeedsTheSelectedEngineOnlyForItsSandboxes(t *testing.T) {
	down := func() (API, error) { return nil, errors.New("no daemon") }
	h, _ := onLaptop(t, &fakeEngine{engine: big, container: "on-big"})
	assert.NilError(t, h.SaveEngine("on-big", EngineRecord{Engine: big}))
	markKnown(t, h, "on-big")
	all, err := h.Sandboxes(t.Context(), down)
	assert.NilError(t, err)
	assert.Equal(t, len(all), 1)

	h.SelectedBy = "--context"
	_, err = h.Sandboxes(t.Context(), down)
	assert.ErrorContains(t, err, "no daemon")

	h.SelectedBy = ""
	markKnown(t, h, "here")
	all, err = h.Sandboxes(t.Context(), down)
	assert.ErrorContains(t, err, "no daemon")
	assert.Equal(t, len(all), 1)
}

func TestSandboxesDoesNotWaitForAnEngine(t *testing.T) {
	h, stderr := onLaptop(t)
	assert.NilError(t, h.SaveEngine("box", EngineRecord{Engine: big}))
	h.ConnectTo = func(ctx context.Context, _ Engine) (API, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	all, err := h.Sandboxes(ctx, h.Engine)
	assert.NilError(t, err)
	assert.Equal(t, len(all), 1)
	assert.Assert(t, is.Contains(stderr.String(), "cannot connect to engine big"))
}

func TestSandboxNameIsOfOneWorktreeAndBranch(t *testing.T) {
	wt := gitrepo.Worktree{Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "a/b", Branch: "feature/x"}}
	dashed := gitrepo.Scope{Repo: "a/b", Branch: "feature-x"}
	plain, err := wt.Scope.SandboxName()
	assert.NilError(t, err)
	own, err := wt.OwnName()
	assert.NilError(t, err)
	for _, tc := range []struct {
		name  string
		owner *Owner
		want  string
	}{
		{"of a worktree without a sandbox", nil, plain},
		{"its own", &Owner{Scope: wt.Scope, Root: wt.Root}, plain},
		{"of another copy of the repository", &Owner{Scope: wt.Scope, Root: t.TempDir()}, own},
		{"of a worktree that was moved", &Owner{Scope: wt.Scope, Root: "/does/not/exist"}, plain},
		{"of another branch in the same worktree", &Owner{Scope: dashed, Root: wt.Root}, own},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, _ := onLaptop(t)
			if tc.owner != nil {
				assert.NilError(t, h.SaveOwner(plain, *tc.owner))
			}
			name, err := h.SandboxName(wt)
			assert.NilError(t, err)
			assert.Equal(t, name, tc.want)
		})
	}
}

// removable is a driver that removes sandboxes.
type removable struct{ lifecycle.Driver }

func (removable) Remove(context.Context, lifecycle.Sandbox) error { return nil }

func TestRemoveKeepsTheRecordOfAKeptGitVolume(t *testing.T) {
	for _, private := range []bool{false, true} {
		h, _ := onLaptop(t)
		assert.NilError(t, h.SaveEngine("box", EngineRecord{Engine: big}))
		assert.NilError(t, h.Remove(t.Context(), removable{}, lifecycle.Sandbox{Name: "box", Private: private}))
		_, found := h.EngineRecord("box")
		assert.Equal(t, found, private)
	}
}

func TestForgetSandbox(t *testing.T) {
	h, _ := onLaptop(t)
	assert.NilError(t, h.SaveEngine("box", EngineRecord{Engine: big}))
	markKnown(t, h, "box")
	assert.Equal(t, h.CreatedBy("box"), config.DriverContainer)
	assert.NilError(t, h.ForgetSandbox(lifecycle.Sandbox{Name: "box"}))
	assert.Equal(t, h.CreatedBy("box"), "")
	_, found := h.EngineRecord("box")
	assert.Assert(t, !found)
}
