package lifecycle

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// memory is a driver whose one sandbox is a variable. It notes what was done.
type memory struct {
	Driver
	sb      Sandbox
	states  []State // what further lookups find, before sb's own
	ready   bool
	busy    bool
	stuck   bool // it cannot be started
	fail    map[string]error
	history []string
}

func (m *memory) note(what string) error {
	m.history = append(m.history, what)
	return m.fail[what]
}

func (m *memory) Name() string { return "memory" }

func (m *memory) Lookup(_ context.Context, name string) (Sandbox, error) {
	if err := m.note("lookup"); err != nil {
		return Sandbox{}, err
	}
	sb := m.sb
	if len(m.states) > 0 {
		sb.State, m.states = m.states[0], m.states[1:]
	}
	if sb.State == "" {
		sb = Sandbox{Name: name, State: NotFound}
	}
	return sb, nil
}

func (m *memory) Create(_ context.Context, spec Spec) (Sandbox, error) {
	if err := m.note("create"); err != nil {
		return Sandbox{}, err
	}
	m.sb = found(spec, Stopped)
	return m.sb, nil
}

func (m *memory) Start(context.Context, Sandbox) error {
	m.sb.State = Running
	if m.stuck {
		m.stuck = false
		m.history = append(m.history, "start")
		return ErrStuck
	}
	return m.note("start")
}

func (m *memory) Prepare(context.Context, Sandbox, Spec) error {
	m.ready = true
	return m.note("prepare")
}

func (m *memory) Remove(context.Context, Sandbox) error {
	m.sb, m.ready = Sandbox{}, false
	return m.note("remove")
}

func (m *memory) ListCommand() string { return "list" }

func (m *memory) Adjust(context.Context, Sandbox, Spec) error { return m.note("adjust") }

func (m *memory) Ready(Sandbox, Spec) bool { return m.ready }

func (m *memory) Busy(context.Context, Sandbox) (bool, error) { return m.busy, m.note("busy") }

func testSpec() Spec {
	return Spec{Name: "ralph-a-b-main", Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}, Root: "/src", Agent: "shell", Image: "image:1"}
}

func found(spec Spec, state State) Sandbox {
	return Sandbox{Name: spec.Name, ID: "1", State: state, Scope: spec.Scope, Root: spec.Root, Agent: spec.Agent, Image: spec.Image, SignDir: spec.SignDir, Settings: spec.Settings(), Resources: spec.Resources, Rules: spec.Egress.Rules(), Egress: spec.Egress.Policy.Mode}
}

// lost is a sandbox that is not where it was.
func lost(spec Spec) Sandbox {
	sb := found(spec, Unknown)
	sb.Why = "nothing is listed"
	return sb
}

func TestEnsure(t *testing.T) {
	spec := testSpec()
	spec.Resources.Memory = 2 << 30
	limited := spec
	limited.Resources.Memory = 1 << 30
	changed := spec
	changed.Image = "image:0"
	otherAgent := changed
	otherAgent.Agent = "claude"
	policy, err := egress.New(egress.Allowlist, "claude", []string{egress.AgentPreset}, nil)
	assert.NilError(t, err)
	otherAgent.Egress = Egress{Policy: policy}
	signed := spec
	signed.SignDir = "/sign"
	otherMounts := spec
	otherMounts.Mounts = []string{"/git"}
	other := spec
	other.Scope.Branch = "MAIN"
	elsewhere := spec
	elsewhere.Root = "/elsewhere"
	unused := found(changed, Stopped)
	unused.Unused = true
	yes := func(context.Context, string) (bool, error) { return true, nil }
	no := func(context.Context, string) (bool, error) { return false, nil }

	for _, tc := range []struct {
		name     string
		driver   memory
		confirm  func(context.Context, string) (bool, error)
		recreate bool
		anyAgent bool
		outdated bool
		history  string
		err      string
		moved    string
		found    Spec // if it is not the one that was asked for
		says     string
	}{
		{name: "running and prepared: one lookup", driver: memory{sb: found(spec, Running), ready: true}, history: "lookup"},
		{name: "nothing there", history: "lookup lookup image create start prepare"},
		{name: "stopped", driver: memory{sb: found(spec, Stopped), ready: true}, history: "lookup lookup start"},
		{name: "stopped for ever", driver: memory{sb: found(spec, Stopped), ready: true, stuck: true}, history: "lookup lookup start image remove create start prepare"},
		{name: "new, and never to be started", driver: memory{stuck: true}, history: "lookup lookup image create start failed remove", err: ErrStuck.Error()},
		{name: "running, not prepared", driver: memory{sb: found(spec, Running)}, history: "lookup lookup prepare"},
		{name: "being removed", driver: memory{sb: found(spec, Stopped), ready: true, states: []State{Removing, Removing}}, history: "lookup lookup lookup start"},
		{name: "restarting", driver: memory{sb: found(spec, Running), ready: true, states: []State{Restarting, Restarting}}, history: "lookup lookup lookup"},
		{name: "dead", driver: memory{sb: found(spec, Dead)}, history: "lookup lookup remove lookup image create start prepare"},
		{name: "paused", driver: memory{sb: found(spec, Paused)}, history: "lookup lookup start lookup prepare"},
		{name: "unknown is not nothing", driver: memory{sb: found(spec, Unknown)}, confirm: yes, history: "lookup lookup", err: "unknown state"},
		{name: "lost, in a script", driver: memory{sb: lost(spec)}, history: "lookup lookup", err: "nothing is listed"},
		{name: "lost, no", driver: memory{sb: lost(spec)}, confirm: no, history: "lookup lookup", err: "canceled: unknown state"},
		{name: "lost, yes", driver: memory{sb: lost(spec)}, confirm: yes, history: "lookup lookup image create start prepare"},
		{name: "lost, recreate", driver: memory{sb: lost(spec)}, recreate: true, history: "lookup image create start prepare"},
		{name: "lost, but there after all", driver: memory{sb: lost(spec), fail: map[string]error{"create": ErrExists}}, confirm: yes, history: "lookup lookup image create lookup", err: "exists, but its state is unknown"},
		{name: "lookup fails", driver: memory{fail: map[string]error{"lookup": errors.New("no engine")}}, history: "lookup", err: "no engine"},
		{name: "another scope of the same name", driver: memory{sb: found(other, Running), ready: true}, recreate: true, history: "lookup", err: `belongs to a/b, branch "MAIN"`},
		{name: "another work tree", driver: memory{sb: found(elsewhere, Running), ready: true}, history: "lookup lookup", err: "belongs to a/b, branch \"main\", in /elsewhere"},
		{name: "a moved work tree, in a script", driver: memory{sb: found(elsewhere, Stopped), ready: true}, moved: "/elsewhere", history: "lookup lookup", err: "(worktree from /elsewhere to /src)"},
		{name: "a moved work tree, yes", driver: memory{sb: found(elsewhere, Stopped), ready: true}, moved: "/elsewhere", confirm: yes, history: "lookup lookup image remove create start prepare"},
		{name: "changed, in a script", driver: memory{sb: found(changed, Running), ready: true}, history: "lookup lookup busy", err: "no longer matches the configuration (image from image:0 to image:1)"},
		{name: "changed, yes", driver: memory{sb: found(changed, Running), ready: true}, confirm: yes, history: "lookup lookup busy image remove create start prepare"},
		{name: "changed, no", driver: memory{sb: found(changed, Running), ready: true}, confirm: no, history: "lookup lookup busy", err: "canceled: sandbox ralph-a-b-main no longer matches"},
		{name: "changed, left by a creation that failed", driver: memory{sb: unused}, history: "lookup lookup image remove create start prepare"},
		{name: "made by an earlier version", driver: memory{sb: found(changed, Running), ready: true}, outdated: true, history: "lookup lookup busy image remove create start prepare", says: "Replacing sandbox ralph-a-b-main, which an earlier version of docker-ralph made"},
		{name: "changed, but in use", driver: memory{sb: found(changed, Running), ready: true, busy: true}, confirm: yes, history: "lookup lookup busy", err: "a command is running in it"},
		{name: "another agent's, and none is needed", driver: memory{sb: found(otherAgent, Running), ready: true}, anyAgent: true, history: "lookup", found: otherAgent},
		{name: "one that signs, and no agent is needed", driver: memory{sb: found(signed, Running), ready: true}, anyAgent: true, history: "lookup", found: signed},
		{name: "other mounts, and no agent is needed", driver: memory{sb: found(otherMounts, Running), ready: true}, anyAgent: true, history: "lookup lookup busy", err: "(mounts from /git to default)"},
		{name: "limits", driver: memory{sb: found(limited, Running), ready: true}, history: "lookup lookup busy adjust", says: "Changed sandbox ralph-a-b-main: memory from 1GiB to 2GiB"},
		{name: "limits of a stopped one", driver: memory{sb: found(limited, Stopped), ready: true}, history: "lookup lookup adjust start"},
		{name: "limits, but in use", driver: memory{sb: found(limited, Running), ready: true, busy: true}, history: "lookup lookup busy", found: limited, says: "was not changed (memory from 1GiB to 2GiB): a command is running in it"},
		{name: "limits that the engine refuses", driver: memory{sb: found(limited, Running), ready: true, fail: map[string]error{"adjust": errors.New("device busy")}}, history: "lookup lookup busy adjust", err: "changing sandbox ralph-a-b-main (memory from 1GiB to 2GiB): device busy"},
		{name: "limits, and no agent is needed", driver: memory{sb: found(limited, Running), ready: true}, anyAgent: true, history: "lookup", found: limited},
		{name: "recreate", driver: memory{sb: found(spec, Running), ready: true}, recreate: true, history: "lookup busy image remove create start prepare"},
		{name: "recreate, but there is no image: the old one stays", driver: memory{sb: found(spec, Running), ready: true, fail: map[string]error{"image": errors.New("not approved")}}, recreate: true, history: "lookup busy image", err: "not approved"},
		{name: "recreate, but in use", driver: memory{sb: found(spec, Running), ready: true, busy: true}, recreate: true, history: "lookup busy", err: "a command is running in it"},
		{name: "recreate a stopped one", driver: memory{sb: found(changed, Stopped)}, recreate: true, history: "lookup image remove create start prepare"},
		{name: "a new one that cannot be prepared is removed", driver: memory{fail: map[string]error{"prepare": errors.New("other machine")}}, history: "lookup lookup image create start prepare failed remove", err: "other machine"},
		{name: "an old one that cannot be started stays", driver: memory{sb: found(spec, Stopped), fail: map[string]error{"start": errors.New("no memory")}}, history: "lookup lookup start failed", err: "no memory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, want, said := &tc.driver, spec, ""
			want.Moved = tc.moved
			e := &Ensurer{
				Driver: d, LockDir: t.TempDir(), Report: func(m string) { said += m }, Confirm: tc.confirm,
				Image:  func(context.Context) error { return d.note("image") },
				Failed: func(context.Context, Sandbox) { _ = d.note("failed") },
			}
			if tc.outdated {
				e.Outdated = func(Sandbox) bool { return true }
			}
			if tc.anyAgent {
				e.AnyAgent = func(agent string) (Egress, error) {
					if agent == otherAgent.Agent {
						return otherAgent.Egress, nil
					}
					return spec.Egress, nil
				}
			}
			sb, err := e.Ensure(t.Context(), want, tc.recreate)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
			} else {
				assert.NilError(t, err)
				if tc.found.Name != "" {
					want = tc.found
				}
				want.Resources = d.sb.Resources
				assert.DeepEqual(t, sb, found(want, Running))
			}
			assert.Check(t, is.Contains(said, tc.says))
			assert.Equal(t, strings.Join(d.history, " "), tc.history)
		})
	}
}

func TestRecreateExcludesOtherCommands(t *testing.T) {
	spec := testSpec()
	for _, tc := range []struct {
		used    error
		history string
	}{
		{nil, "lookup busy image exclude save remove done create start prepare"},
		{errors.New("another command is using it"), "lookup busy image exclude"},
	} {
		d := &memory{sb: found(spec, Running), ready: true, fail: map[string]error{"exclude": tc.used}}
		e := &Ensurer{
			Driver: d, LockDir: t.TempDir(), Report: func(string) {}, Image: func(context.Context) error { return d.note("image") },
			Save:    func(context.Context, Sandbox) error { return d.note("save") },
			Exclude: func(Sandbox) (func(), error) { return func() { _ = d.note("done") }, d.note("exclude") },
		}
		_, err := e.Ensure(t.Context(), spec, true)
		assert.ErrorIs(t, err, tc.used)
		assert.Equal(t, strings.Join(d.history, " "), tc.history)
	}
}

func TestEnsureWaitsForTheLock(t *testing.T) {
	spec, dir := testSpec(), t.TempDir()
	held := flock.New(filepath.Join(dir, spec.Name+".lock"))
	assert.NilError(t, held.Lock())
	said := make(chan string, 1)
	d := &memory{}
	e := &Ensurer{Driver: d, LockDir: dir, Report: func(m string) {
		select {
		case said <- m:
		default:
		}
	}, Image: func(context.Context) error { return nil }}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Ensure(ctx, spec, false)
		done <- err
	}()
	assert.Equal(t, <-said, "Waiting for another command that is setting up ralph-a-b-main")
	cancel()
	select {
	case err := <-done:
		assert.ErrorIs(t, err, context.Canceled)
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on waiting")
	}

	assert.NilError(t, held.Unlock())
	_, err := e.Ensure(t.Context(), spec, false)
	assert.NilError(t, err)
}

// A driver that cannot change limits keeps them, and says so.
func TestLimitsThatCannotBeChanged(t *testing.T) {
	spec := testSpec()
	d := &memory{sb: found(spec, Running), ready: true}
	spec.Resources.Memory = 1 << 30
	said := ""
	e := &Ensurer{Driver: struct{ Driver }{d}, LockDir: t.TempDir(), Report: func(m string) { said += m }}
	_, err := e.Ensure(t.Context(), spec, false)
	assert.NilError(t, err)
	assert.Equal(t, said, "Warning: sandbox ralph-a-b-main was not changed (memory from 0B to 1GiB): driver memory cannot do that\nHint: recreate it with --recreate")
}

func TestDifferencesAreNamed(t *testing.T) {
	rules := func(hosts ...string) Egress {
		var allowed []egress.Entry
		for _, host := range hosts {
			rule, err := egress.ParseRule(host)
			assert.NilError(t, err)
			allowed = append(allowed, egress.Entry{Rule: rule})
		}
		policy, err := egress.New(egress.Allowlist, "shell", nil, allowed)
		assert.NilError(t, err)
		return Egress{Policy: policy}
	}
	base := testSpec()
	base.Resources = Resources{Memory: 8 << 30, NanoCPUs: 15e8, Pids: 100}
	base.Egress = rules("a.example", "b.example")
	for _, tc := range []struct {
		change            func(*Spec)
		conflict, changes string
	}{
		{change: func(s *Spec) { s.Version = "2" }},
		{change: func(s *Spec) { s.Root = "/other" }, conflict: "worktree from /src to /other"},
		{change: func(s *Spec) { s.Mounts = []string{"/git"} }, conflict: "mounts from default to /git"},
		{change: func(s *Spec) { s.Agent = "claude" }, conflict: "agent from shell to claude"},
		{change: func(s *Spec) { s.Image = "image:2" }, conflict: "image from image:1 to image:2"},
		{change: func(s *Spec) { s.Root, s.Agent = `/src" "`, "" }, conflict: `worktree from /src to /src" ", agent from shell to default`},
		{change: func(s *Spec) { s.User.UID = 1 }, conflict: "user from 0:0 to 1:0"},
		{change: func(s *Spec) { s.Private = true }, conflict: "clone from default to on"},
		{change: func(s *Spec) { s.ReadOnly, s.Runtime = true, "runsc" }, conflict: "read-only root filesystem from default to on, runtime from default to runsc"},
		{change: func(s *Spec) { s.Tmp, s.Shm = 2<<30, 1<<30 }, conflict: "shm from default to 1GiB, tmp from default to 2GiB"},
		{change: func(s *Spec) { s.Config, s.Cache, s.MainRoot = "/config", "/src", "/src" }, conflict: "cache from default to on, copy of agent settings from default to on"},
		{change: func(s *Spec) { s.SignDir = "/sign" }, conflict: "signing from default to /sign"},
		{change: func(s *Spec) { s.Cache = "/src.git" }, conflict: "cache from default to /src.git"},
		{change: func(s *Spec) { s.Resources = Resources{Memory: 4 << 30, NanoCPUs: 2e9, Pids: 50} }, changes: "memory from 8GiB to 4GiB, cpus from 1.5 to 2, pids from 100 to 50"},
		{change: func(s *Spec) { s.Resources = Resources{} }},
		{change: func(s *Spec) { s.Egress = rules("b.example", "c.example") }, changes: "network rule allow c.example from off to on, network rule allow a.example from on to off"},
		{change: func(s *Spec) { s.Egress = Egress{Policy: egress.Policy{Mode: egress.Deny}} }, conflict: "network policy from allowlist to deny"},
	} {
		s := base
		tc.change(&s)
		sb := found(base, Running)
		assert.Check(t, is.Equal(describe(s.conflicts(sb)), tc.conflict))
		if tc.conflict == "" {
			assert.Check(t, is.Equal(describe(s.changes(sb)), tc.changes))
		}
	}
	earlier := found(base, Running)
	earlier.Settings = ""
	base.Version = "v2"
	assert.Check(t, is.Equal(describe(base.conflicts(earlier)), "version of docker-ralph from an earlier one to v2"))
}
