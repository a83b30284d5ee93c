package run

import (
	"context"
	"errors"
	"io"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// inside is a driver whose sandboxes run commands.
type inside struct {
	lifecycle.Driver
	running map[string]string // names of sandboxes, by the ID of the command that runs there
	err     error
	asked   int
}

func (d *inside) Lookup(_ context.Context, name string) (lifecycle.Sandbox, error) {
	return lifecycle.Sandbox{Name: name, State: lifecycle.Running}, d.err
}

func (d *inside) Dispatches(ctx context.Context, sb lifecycle.Sandbox) (all []lifecycle.Dispatch, _ error) {
	d.asked++
	if _, limited := ctx.Deadline(); !limited {
		return nil, errors.New("asked without a time limit")
	}
	for id, name := range d.running {
		if name == sb.Name {
			all = append(all, lifecycle.Dispatch{ID: id})
		}
	}
	return all, d.err
}

func TestAlive(t *testing.T) {
	const own, temporary = "ralph-a-b-main", "ralph-a-b-main-abcdefgh"
	for _, tc := range []struct {
		name    string
		live    string // the sandbox of a live record
		dead    string // the sandbox of the record of a killed process
		running string // the sandbox in which the command runs
		err     error
		want    bool
		asked   int
	}{
		{name: "waited for", live: own, want: true},
		{name: "waited for in another sandbox", live: temporary, want: true},
		{name: "unknown", asked: 1},
		{name: "left", dead: own, running: own, want: true, asked: 1},
		{name: "left without a record", running: own, want: true, asked: 1},
		{name: "left in another sandbox", dead: temporary, running: temporary, want: true, asked: 1},
		{name: "ended with its process", dead: own, asked: 1},
		{name: "ended in another sandbox", dead: temporary, asked: 1},
		{name: "no answer", dead: own, err: errors.New("no answer"), want: true, asked: 1},
		{name: "no answer about another sandbox", dead: temporary, err: errors.New("no answer"), want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host.Host{StateDir: t.TempDir()}
			if tc.live != "" {
				record(t, h, host.Record{ID: "x", Sandbox: tc.live})
			}
			if tc.dead != "" {
				record(t, h, host.Record{ID: "x", Sandbox: tc.dead}).Done(errors.New("killed"))
			}
			record(t, h, host.Record{ID: "other", Sandbox: own})
			d := &inside{running: map[string]string{"other": own}, err: tc.err}
			if tc.running != "" {
				d.running["x"] = tc.running
			}
			s := sessions{host: h, driver: d, name: own}
			assert.Equal(t, s.alive(t.Context(), lifecycle.Sandbox{Name: own, State: lifecycle.Running}, "x"), tc.want)
			assert.Equal(t, d.asked, tc.asked)
		})
	}
}

func record(t *testing.T, h host.Host, r host.Record) *host.HeldRecord {
	t.Helper()
	held, err := h.NewRecord(r)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = held.Lock.Close() })
	return held
}

// relaying is a driver that relays connections.
type relaying struct {
	lifecycle.Driver
	peers bool
}

func (relaying) Relay(context.Context, lifecycle.Sandbox, string) (io.ReadWriteCloser, error) {
	return nil, errors.New("no sandbox")
}

func (r relaying) RelaysPeers() bool { return r.peers }

// Only a command whose connections do not say whose they are has a token.
func TestSessionEnvironment(t *testing.T) {
	assert.Equal(t, newToken(relaying{peers: true}), "")
	assert.DeepEqual(t, sessionEnv("x", ""), []string{"RALPH_SESSION=x"})
	token := newToken(relaying{})
	assert.Assert(t, token != "" && token != newToken(relaying{}))
	assert.DeepEqual(t, sessionEnv("x", token), []string{"RALPH_SESSION=x", "RALPH_SESSION_TOKEN=" + token})
}
