package run

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	door "github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
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

// relaying is a driver with a sandbox that dials back.
type relaying struct {
	inside
	peers  bool
	dialed map[string]*yamux.Session // by the ID of the session
}

// Relay implements [lifecycle.Relayer] as "ralph _session" does.
func (d *relaying) Relay(_ context.Context, _ lifecycle.Sandbox, id string) (io.ReadWriteCloser, error) {
	here, there := net.Pipe()
	config := yamux.DefaultConfig()
	config.LogOutput = io.Discard
	guest, err := yamux.Client(there, config)
	if err != nil {
		return nil, err
	}
	d.dialed[id] = guest
	return announced{io.MultiReader(strings.NewReader(wire.SessionReady), here), here}, nil
}

func (d *relaying) RelaysPeers() bool { return d.peers }

// announced begins with the line of a relay that listens.
type announced struct {
	io.Reader
	io.WriteCloser
}

// client returns the client of a command in the sandbox.
func (d *relaying) client(id string, peer wire.Peer, token string) *door.Client {
	return door.NewClient(door.ClientOptions{Token: token, Dial: func(context.Context) (net.Conn, error) {
		stream, err := d.dialed[id].OpenStream()
		if err != nil {
			return nil, err
		}
		_, err = stream.Write(peer.AppendTo(nil))
		return stream, err
	}})
}

// dialing returns the sessions of a new worktree whose sandbox dials back.
func dialing(t *testing.T) (sessions, *relaying, lifecycle.Sandbox) {
	t.Helper()
	h := host.Host{StateDir: t.TempDir(), Stderr: t.Output()}
	wt := gitrepo.Worktree{Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}
	d := &relaying{inside: inside{running: map[string]string{}}, peers: true, dialed: map[string]*yamux.Session{}}
	s, err := openSessions(t.Context(), h, d, wt, config.Effective{})
	assert.NilError(t, err)
	t.Cleanup(s.close)
	return s, d, lifecycle.Sandbox{Name: s.name, Scope: wt.Scope, Root: wt.Root, State: lifecycle.Running}
}

// A session outlives the context of its start, and ends when it is stopped.
func TestCommandReachesItsBacklog(t *testing.T) {
	for _, tc := range []struct {
		name  string
		peers bool
		peer  wire.Peer
	}{
		{name: "by its connection and token", peers: true, peer: wire.Peer{Outside: true, Command: 7}},
		{name: "by its token", peer: wire.Peer{Command: 7}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, d, sb := dialing(t)
			d.peers = tc.peers
			ctx, cancel := context.WithCancel(t.Context())
			stop, err := s.serve(ctx, sb, host.Record{ID: "x", Token: "secret", Command: []string{"ralph", "build"}}, nil, nil, nil)
			assert.NilError(t, err)
			cancel()

			loop := d.client("x", tc.peer, "secret")
			agent, err := loop.Register(t.Context())
			assert.NilError(t, err)
			agents, err := s.store.Agents(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, len(agents), 1)
			assert.Equal(t, agents[0].ID, agent.ID)
			assert.Equal(t, agents[0].Session, "x")
			_, err = d.client("x", wire.Peer{Outside: true, Command: 7}, "guess").Register(t.Context())
			assert.Assert(t, err != nil, "an agent is no loop")
			_, err = d.client("x", wire.Peer{Command: 7}, "secret").Register(t.Context())
			assert.Equal(t, err != nil, tc.peers, "%v", err)

			stop()
			<-d.dialed["x"].CloseChan()
		})
	}
}

// A loop that was killed has not reopened its tasks.
func TestTasksOfAnEndedLoopAreReopened(t *testing.T) {
	s, _, _ := dialing(t)
	ctx, cancel := context.WithCancel(t.Context())
	for _, id := range []string{"ended", "lost", "other"} {
		agent, err := s.store.RegisterAgent(ctx, backlog.Agent{Loop: true, Session: id})
		assert.NilError(t, err)
		assert.NilError(t, s.store.Create(ctx, backlog.NewTask{Slug: id, Title: id}))
		_, err = s.store.Claim(ctx, backlog.ClaimOptions{Slug: id, Agent: agent, Lease: time.Hour})
		assert.NilError(t, err)
	}
	cancel() // a user's interrupt
	loop := &host.HeldRecord{Record: host.Record{Command: []string{"ralph", "build"}}}
	s.release(ctx, session{id: "ended", record: loop}, Result{})
	s.release(ctx, session{id: "lost", record: loop}, Result{lost: lifecycle.ErrDisconnected})
	for id, status := range map[string]string{"ended": backlog.StatusOpen, "lost": backlog.StatusActive, "other": backlog.StatusActive} {
		task, err := s.store.Show(t.Context(), id)
		assert.NilError(t, err)
		assert.Equal(t, task.Status, status, id)
	}
}

// Loops whose processes have died are connected by the next command, each with its own rights.
func TestLeftLoopsAreConnected(t *testing.T) {
	s, d, sb := dialing(t)
	for id, command := range map[string]string{"planning": "plan", "building": "build", "ended": "build"} {
		record(t, s.host, host.Record{ID: id, PID: 7, Command: []string{"ralph", command}, Sandbox: sb.Name}).Done(errors.New("killed"))
	}
	record(t, s.host, host.Record{ID: "alive", Command: []string{"ralph", "build"}, Sandbox: sb.Name})
	for _, id := range []string{"planning", "building", "alive"} {
		d.running[id] = sb.Name
	}

	ctx, cancel := context.WithTimeout(t.Context(), host.AskTimeout)
	defer cancel()
	stop := s.serveLeft(ctx, sb, s.host.ReportOrphans(ctx, d, sb), nil)
	assert.DeepEqual(t, slices.Sorted(maps.Keys(d.dialed)), []string{"building", "planning"})
	for id, code := range map[string]int{"planning": 0, "building": 1} {
		plan, err := d.client(id, wire.Peer{Command: 7}, "").Task(t.Context(), door.TaskRequest{ID: id, Args: []string{"plan-sync"}})
		assert.NilError(t, err)
		assert.Equal(t, plan.Code, code, "%s%s", plan.Stdout, plan.Stderr)
	}
	stop()
	for _, session := range d.dialed {
		<-session.CloseChan()
	}
}

// What follows a loop, such as its notifications, is called by its events.
func TestEventsOfALoopArePassedOn(t *testing.T) {
	s, d, sb := dialing(t)
	got := make(chan runlog.Event, 8)
	stop, err := s.serve(t.Context(), sb, host.Record{ID: "left", Token: "secret", Command: []string{"ralph", "build"}}, nil, nil, func(e runlog.Event) { got <- e })
	assert.NilError(t, err)
	defer stop()

	log, _, _, err := d.client("left", wire.Peer{Outside: true, Command: 7}, "secret").OpenLog(t.Context(), door.LogRequest{Loop: runlog.Loop{Mode: "build", Started: time.Now()}})
	assert.NilError(t, err)
	assert.NilError(t, log.Append(runlog.Iteration{N: 1, Commit: strings.Repeat("a", 40)}))
	end, ok := (<-got).Data.(*runlog.RunEnd)
	assert.Assert(t, ok)
	assert.Equal(t, end.N, 1)
	found, err := runlog.Find(s.logs(), func(l runlog.Loop) bool { return l.Dispatch == "left" })
	assert.NilError(t, err)
	defer found.Close()
	assert.Equal(t, len(found.Iterations()), 1)
	assert.NilError(t, log.Finish(runlog.LoopEnd{Stop: "complete"}))
	assert.Equal(t, (<-got).Data.Type(), "loop.end")
}
