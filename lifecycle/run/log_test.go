package run

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/errdefs"
	apicontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// logged is an engine that has containers with logs.
type logged struct {
	engine.API
	states map[string]*apicontainer.State // by ID and name
	logs   map[string]string
	late   *atomic.Int32 // counts up to when something is known to have ended
}

func (l logged) ContainerInspect(_ context.Context, id string, _ client.ContainerInspectOptions) (client.ContainerInspectResult, error) {
	state, ok := l.states[id]
	if !ok {
		return client.ContainerInspectResult{}, errdefs.ErrNotFound
	}
	if l.late != nil && l.late.Add(1) < 4 {
		state = &apicontainer.State{Running: true, Status: apicontainer.StateRunning}
	}
	return client.ContainerInspectResult{Container: apicontainer.InspectResponse{ID: id, Name: "/" + id, State: state}}, nil
}

func (l logged) ContainerLogs(_ context.Context, id string, o client.ContainerLogsOptions) (client.ContainerLogsResult, error) {
	log, ok := l.logs[id]
	if !ok {
		return nil, errors.New("no log driver")
	}
	if before, after, found := strings.Cut(log, "RESTARTED\n"); found {
		if log = before + after; o.Since != "" {
			log = after
		}
	}
	header := make([]byte, 8)
	header[0] = 2
	binary.BigEndian.PutUint32(header[4:], uint32(len(log)))
	return io.NopCloser(strings.NewReader(string(header) + log)), nil
}

func numbered(n int) string {
	var all strings.Builder
	for i := range n {
		_, _ = fmt.Fprintf(&all, "line %d\n", i)
	}
	return all.String()
}

func TestEndedContainersAreReported(t *testing.T) {
	running := &apicontainer.State{Running: true, Status: apicontainer.StateRunning, StartedAt: "2026-01-01T00:00:00Z"}
	exited := func(code int) *apicontainer.State {
		return &apicontainer.State{Status: apicontainer.StateExited, ExitCode: code, StartedAt: "2026-01-01T00:00:00Z"}
	}
	for _, tc := range []struct {
		name   string
		engine logged
		code   int
		err    error
		walled bool
		says   []string // in this order, and nothing if empty
		keeps  int
	}{
		{name: "an agent that fails", engine: logged{states: map[string]*apicontainer.State{"id": running}}, code: 9},
		{
			name: "an agent that fails and a sandbox that has said something", code: 1,
			engine: logged{states: map[string]*apicontainer.State{"id": running}, logs: map[string]string{"id": "w\n"}},
		},
		{
			name: "killed", code: 137, keeps: 1, engine: logged{states: map[string]*apicontainer.State{"id": exited(137)}, logs: map[string]string{"id": numbered(12)}},
			says: []string{"Warning: sandbox sb was killed. The last lines of its log:\n  line 2\n  line 3\n", "  line 11\nAll of it is in "},
		},
		{
			name: "without a word since its start", code: 137, engine: logged{states: map[string]*apicontainer.State{"id": exited(137)}, logs: map[string]string{"id": "old\nRESTARTED\n"}},
			says: []string{"Warning: sandbox sb was killed, without output in its log\n"},
		},
		{
			name: "memory", code: 137, engine: logged{states: map[string]*apicontainer.State{"id": {Status: apicontainer.StateExited, ExitCode: 137, OOMKilled: true}}, logs: map[string]string{"id": ""}},
			says: []string{"ran out of memory"},
		},
		{
			name: "time", code: 124, keeps: 1, engine: logged{states: map[string]*apicontainer.State{"id": exited(124)}, logs: map[string]string{"id": "Error: too long\n"}},
			says: []string{"exceeded the time limit of a run. The last lines of its log:\n  Error: too long\n"},
		},
		{
			name: "commands the terminal", code: 1, keeps: 1, engine: logged{states: map[string]*apicontainer.State{"id": exited(3)}, logs: map[string]string{"id": "a\x1b]0;title\x07b\rc \x1b[31mred\n"}},
			says: []string{"ended with exit code 3. The last lines of its log:\n  abc \x1b[31mred\x1b[m\nAll"},
		},
		{name: "gone", err: errors.New("no such exec"), says: []string{"Warning: the sandbox of sb was removed with its log\n"}},
		{
			name: "slow to be known", code: 128, engine: logged{states: map[string]*apicontainer.State{"id": exited(137)}, logs: map[string]string{"id": ""}, late: new(atomic.Int32)},
			says: []string{"was killed"},
		},
		{name: "being removed", code: 137, engine: logged{states: map[string]*apicontainer.State{"id": {Status: apicontainer.StateRemoving}}}, says: []string{"was removed"}},
		{
			name: "another log driver", code: 137, engine: logged{states: map[string]*apicontainer.State{"id": exited(137)}},
			says: []string{"was killed, and its log cannot be read: reading the log of sb: no log driver\n"},
		},
		{name: "left", err: lifecycle.ErrDetached, engine: logged{states: map[string]*apicontainer.State{"id": exited(1)}}},
		{
			name: "proxy", walled: true, code: 10, keeps: 1, says: []string{"Warning: proxy sb.egress ended with exit code 1. The last lines of its log:\n  Error: no\n"},
			engine: logged{states: map[string]*apicontainer.State{"id": running, "sb.egress": exited(1)}, logs: map[string]string{"sb.egress": "Error: no\n"}},
		},
		{name: "success without a proxy", walled: true, engine: logged{states: map[string]*apicontainer.State{"id": running}}},
		{name: "no proxy", walled: true, code: 10, engine: logged{states: map[string]*apicontainer.State{"id": running}}, says: []string{"the proxy of sb was removed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			h := host.Host{StateDir: t.TempDir(), Stderr: &stderr}
			sb := lifecycle.Sandbox{Name: "sb", ID: "id"}
			if tc.walled {
				sb.Proxy = "10.242.0.2"
			}
			reportEnded(t.Context(), h, &container.Driver{API: tc.engine}, sb, tc.code, tc.err)
			rest := stderr.String()
			for _, text := range tc.says {
				_, after, ok := strings.Cut(rest, text)
				assert.Assert(t, ok, "%q in %q", text, stderr.String())
				rest = after
			}
			assert.Assert(t, len(tc.says) > 0 || rest == "", rest)
			kept, err := filepath.Glob(filepath.Join(logDir(h), "*"))
			assert.NilError(t, err)
			assert.Equal(t, len(kept), tc.keeps)
			if len(kept) > 0 {
				_, path, _ := strings.Cut(stderr.String(), "All of it is in ")
				assert.Equal(t, strings.TrimSpace(path), kept[0])
			}
		})
	}
}

// The log of a container that failed to start is reported.
func TestLogsOfAFailedStartAreReported(t *testing.T) {
	var stderr bytes.Buffer
	h := host.Host{StateDir: t.TempDir(), Stderr: &stderr}
	e := logged{
		states: map[string]*apicontainer.State{
			"id":        {Running: true, Status: apicontainer.StateRunning},
			"sb.egress": {Status: apicontainer.StateExited, ExitCode: 1},
		},
		logs: map[string]string{"id": "Warning: no clock\n", "sb.egress": "Error: no address\n"},
	}
	d := &container.Driver{API: e}
	sb := lifecycle.Sandbox{Name: "sb", ID: "id", Proxy: "10.242.0.2"}
	reportFailed(t.Context(), h, d, sb)
	assert.Check(t, is.Contains(stderr.String(), "Note: sandbox sb runs. The last lines of its log:\n  Warning: no clock\n"))
	assert.Check(t, is.Contains(stderr.String(), "Warning: proxy sb.egress ended with exit code 1. The last lines of its log:\n  Error: no address\n"))

	// Nothing is said of what has nothing to say, or was never started.
	stderr.Reset()
	e.logs["id"], e.logs["sb.egress"] = "", ""
	e.states["sb.egress"] = &apicontainer.State{Status: apicontainer.StateCreated}
	reportFailed(t.Context(), h, d, sb)
	delete(e.states, "sb.egress")
	reportFailed(t.Context(), h, d, sb)
	assert.Equal(t, stderr.String(), "")
}

func TestSavedLogsArePrivate(t *testing.T) {
	h := host.Host{StateDir: t.TempDir(), Stderr: io.Discard}
	d := &container.Driver{API: logged{states: map[string]*apicontainer.State{"id": {Status: apicontainer.StateExited}}, logs: map[string]string{"id": "old\nRESTARTED\n" + numbered(30)}}}
	var all []string
	for range logsMax + 2 {
		reportEnded(t.Context(), h, d, lifecycle.Sandbox{Name: "sb", ID: "id"}, 1, nil)
		kept, err := filepath.Glob(filepath.Join(logDir(h), "*"))
		assert.NilError(t, err)
		all = append(all, kept[len(kept)-1])
	}
	kept, err := filepath.Glob(filepath.Join(logDir(h), "*"))
	assert.NilError(t, err)
	assert.DeepEqual(t, kept, all[2:])
	content, err := os.ReadFile(kept[0])
	assert.NilError(t, err)
	assert.Equal(t, string(content), "old\n"+numbered(30))
	if runtime.GOOS != "windows" {
		for path, mode := range map[string]os.FileMode{logDir(h): 0o700, kept[0]: 0o600} {
			info, err := os.Stat(path)
			assert.NilError(t, err)
			assert.Equal(t, info.Mode().Perm(), mode)
		}
	}
}

func TestTail(t *testing.T) {
	var last Tail
	assert.Assert(t, last.empty())
	for range 100 {
		_, err := last.Write([]byte(strings.Repeat("x", 1000) + "\n"))
		assert.NilError(t, err)
	}
	var out bytes.Buffer
	last.show(&out)
	assert.Equal(t, out.String(), strings.Repeat("  "+strings.Repeat("x", 1000)+"\n", logLines))

	// One line that is longer than what is looked at.
	last, out = Tail{}, bytes.Buffer{}
	_, err := last.Write(bytes.Repeat([]byte("y"), 2*tailMax))
	assert.NilError(t, err)
	last.show(&out)
	assert.Equal(t, out.String(), "  "+strings.Repeat("y", tailMax)+"\n")
}
