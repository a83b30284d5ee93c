package container_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	driver "github.com/docker-ralph/docker-ralph/lifecycle/container"
)

func TestForeignContainersAreKept(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		ctx, api, s := t.Context(), e.Client(t), newSuite(t, e)

		spec := s.NewSpec(t)
		made, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{Name: spec.Name, Image: spec.Image})
		assert.NilError(t, err)
		t.Cleanup(func() { remove(t, api, made.ID) })
		for _, call := range []func() error{
			func() error { _, err := s.Driver.Lookup(ctx, spec.Name); return err },
			func() error { _, err := ensure(t, s.Driver, spec, true); return err },
		} {
			err := call()
			foreign, ok := errors.AsType[*lifecycle.ForeignError](err)
			assert.Assert(t, ok, "%v", err)
			assert.Equal(t, foreign.Name, spec.Name)
		}
		_, err = api.ContainerInspect(ctx, made.ID, client.ContainerInspectOptions{})
		assert.NilError(t, err)
	})
}

func TestLookupIgnoresIDs(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		sb, _ := s.Up(t)
		found, err := s.Driver.Lookup(t.Context(), sb.ID[:12])
		assert.NilError(t, err)
		assert.Equal(t, found.State, lifecycle.NotFound)
	})
}

func TestHardening(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		sb, spec := s.Up(t)
		out := sh(t, s.Driver, sb, spec, "exec 2>&1; cat /proc/self/status; echo; cat /proc/1/status; kill -STOP 1 || true; touch /opt/ralph/x || true; ls -l /opt/ralph/bin/ralph")
		self, first, ok := strings.Cut(out, "\n\n")
		assert.Assert(t, ok)
		for _, field := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Uid:\t1234\t", "Gid:\t2345\t"} {
			assert.Check(t, is.Contains(self, field))
		}
		assert.Check(t, is.Contains(first, "Uid:\t65534\t"))
		assert.Check(t, is.Contains(first, "CapBnd:\t0000000000000000"))
		assert.Check(t, is.Contains(out, "Operation not permitted"), "the agent cannot stop the first process")
		assert.Check(t, is.Contains(out, "Read-only file system"), "the agent cannot change ralph")

		res, err := e.Client(t).ContainerInspect(t.Context(), sb.ID, client.ContainerInspectOptions{})
		assert.NilError(t, err)
		host := res.Container.HostConfig
		assert.Check(t, is.Equal(host.Memory, int64(512<<20)))
		assert.Check(t, is.Equal(host.MemorySwap, host.Memory))
		assert.Check(t, is.Equal(host.NanoCPUs, int64(1e9)))
		assert.Check(t, is.Equal(*host.PidsLimit, int64(200)))
		assert.Check(t, !host.Privileged)
		for label, want := range map[string]string{
			"created-by": "docker-ralph", "scope.repo": spec.Scope.Repo, "scope.branch": spec.Scope.Branch, "root": spec.MainRoot,
			"worktree": spec.Root, "agent": "shell", "version": "test", "settings": spec.Settings(),
		} {
			assert.Check(t, is.Equal(res.Container.Config.Labels["io.github.docker-ralph."+label], want), label)
		}
	})
}

func TestLimitsAreClampedToTheEngine(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		spec := s.NewSpec(t)
		spec.Resources = lifecycle.Resources{Memory: 1 << 50, NanoCPUs: 1e15, Pids: 100}
		sb := s.UpWith(t, spec)
		api := e.Client(t)
		info, err := api.Info(t.Context(), client.InfoOptions{})
		assert.NilError(t, err)
		res, err := api.ContainerInspect(t.Context(), sb.ID, client.ContainerInspectOptions{})
		assert.NilError(t, err)
		assert.Equal(t, res.Container.HostConfig.Memory, info.Info.MemTotal)
		assert.Equal(t, res.Container.HostConfig.NanoCPUs, int64(info.Info.NCPU)*1e9)
	})
}

func TestOrphansAreSwept(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		sb, spec := s.Up(t)
		sh(t, s.Driver, sb, spec, "for i in 1 2 3 4 5; do (sleep 0.1 &) ; done")
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			// Other than in ps, only the engine sees zombies from outside.
			res, err := e.Client(t).ContainerTop(t.Context(), sb.ID, client.ContainerTopOptions{Arguments: []string{"-eo", "pid"}})
			if err != nil {
				return poll.Error(err)
			}
			if len(res.Processes) > 1 {
				return poll.Continue("processes are left")
			}
			return poll.Success()
		}, poll.WithTimeout(20*time.Second))
	})
}

func TestUnusualStates(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		ctx, api, s := t.Context(), e.Client(t), newSuite(t, e)
		sb, spec := s.Up(t)
		poll.WaitOn(t, func(poll.LogT) poll.Result { // runc may fail to freeze the processes of a busy machine
			if _, err := api.ContainerPause(ctx, sb.ID, client.ContainerPauseOptions{}); err != nil {
				return poll.Continue("%v", err)
			}
			return poll.Success()
		}, poll.WithTimeout(time.Minute))
		found, err := s.Driver.Lookup(ctx, spec.Name)
		assert.NilError(t, err)
		assert.Equal(t, found.State, lifecycle.Paused)
		again, err := ensure(t, s.Driver, spec, false)
		assert.NilError(t, err)
		assert.Equal(t, again.ID, sb.ID)
		assert.Equal(t, sh(t, s.Driver, again, spec, "echo up"), "up\n")

		// Killed from outside: restarted, not recreated.
		_, err = api.ContainerKill(ctx, sb.ID, client.ContainerKillOptions{Signal: "KILL"})
		assert.NilError(t, err)
		again, err = ensure(t, s.Driver, spec, false)
		assert.NilError(t, err)
		assert.Equal(t, again.ID, sb.ID)
		assert.Equal(t, sh(t, s.Driver, again, spec, "echo up"), "up\n")
	})
}

func TestConcurrentCommandsCreateOneSandbox(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		spec := s.NewSpec(t)
		spec.Egress.Policy.Mode = egress.Deny // they have to agree on its proxy, too
		const n = 6
		ids := make([]string, n)
		locks := t.TempDir()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				// Half of them share a lock, the others are on their own, like
				// those of another user.
				dir := locks
				if i%2 == 1 {
					dir = filepath.Join(locks, fmt.Sprint(i))
				}
				sb, err := ensureIn(t, dir, s.Driver, spec, false)
				assert.Check(t, err)
				ids[i] = sb.ID
				if err == nil {
					assert.Check(t, is.Equal(sh(t, s.Driver, sb, spec, "echo up"), "up\n"))
				}
			})
		}
		wg.Wait()
		sb, err := s.Driver.Lookup(t.Context(), spec.Name)
		assert.NilError(t, err)
		t.Cleanup(func() { assert.Check(t, s.Driver.Remove(context.WithoutCancel(t.Context()), sb)) })
		for _, id := range ids {
			assert.Check(t, is.Equal(id, sb.ID))
		}

		// The losers of the race have left nothing but the sandbox and its proxy.
		its := make(client.Filters).Add("label", "io.github.docker-ralph.sandbox="+spec.Name)
		containers, err := e.Client(t).ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: its})
		assert.NilError(t, err)
		assert.Check(t, is.Len(containers.Items, 2))
		networks, err := e.Client(t).NetworkList(t.Context(), client.NetworkListOptions{Filters: its})
		assert.NilError(t, err)
		assert.Check(t, is.Len(networks.Items, 0))
	})
}

// The loser of a race for the same name has a network that is in
// use, until he removes it himself.
func TestNetworkInUseIsKept(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, api := newSuite(t, e), e.Client(t)
		spec := s.NewSpec(t)
		spec.Egress.Policy.Mode = egress.Deny
		name, ctx := spec.Name+".late", context.WithoutCancel(t.Context())
		labels := map[string]string{
			"io.github.docker-ralph.created-by": "docker-ralph", "io.github.docker-ralph.sandbox": spec.Name, "io.github.docker-ralph.role": "network",
		}
		_, err := api.NetworkCreate(t.Context(), name, client.NetworkCreateOptions{Driver: "bridge", Labels: labels})
		assert.NilError(t, err)
		t.Cleanup(func() {
			_, err := api.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
			assert.Check(t, err)
		})
		user, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
			Config:     &container.Config{Image: engines.BaseImage(), Cmd: []string{"sleep", "600"}},
			HostConfig: &container.HostConfig{NetworkMode: container.NetworkMode(name)},
		})
		assert.NilError(t, err)
		t.Cleanup(func() {
			_, err := api.ContainerRemove(ctx, user.ID, client.ContainerRemoveOptions{Force: true})
			assert.Check(t, err)
		})
		_, err = api.ContainerStart(t.Context(), user.ID, client.ContainerStartOptions{})
		assert.NilError(t, err)

		sb, err := s.Driver.Create(t.Context(), spec)
		assert.NilError(t, err)
		assert.ErrorContains(t, s.Driver.Remove(t.Context(), sb), "active endpoints", "the network of a removed sandbox has no other owner")
	})
}

// A plugin can be killed between any two steps of making a sandbox.
func TestPartialSandboxesAreCompleted(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		for _, tc := range []struct {
			name  string
			leave func(t *testing.T, api *client.Client, d lifecycle.Driver, spec lifecycle.Spec)
		}{
			{"created", func(t *testing.T, _ *client.Client, d lifecycle.Driver, spec lifecycle.Spec) {
				_, err := d.Create(t.Context(), spec)
				assert.NilError(t, err)
			}},
			{"started", func(t *testing.T, _ *client.Client, d lifecycle.Driver, spec lifecycle.Spec) {
				sb, err := d.Create(t.Context(), spec)
				assert.NilError(t, err)
				assert.NilError(t, d.Start(t.Context(), sb))
			}},
			{"removed by hand before use", func(t *testing.T, api *client.Client, d lifecycle.Driver, spec lifecycle.Spec) {
				sb, err := d.Create(t.Context(), spec)
				assert.NilError(t, err)
				remove(t, api, sb.ID)
			}},
			{"removed by hand after use", func(t *testing.T, api *client.Client, d lifecycle.Driver, spec lifecycle.Spec) {
				sb, err := ensure(t, d, spec, false)
				assert.NilError(t, err)
				remove(t, api, sb.ID)
			}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				s := newSuite(t, e)
				spec := s.NewSpec(t)
				tc.leave(t, e.Client(t), s.Driver, spec)
				sb, err := ensure(t, s.Driver, spec, false)
				assert.NilError(t, err)
				t.Cleanup(func() { assert.Check(t, s.Driver.Remove(context.WithoutCancel(t.Context()), sb)) })
				assert.Equal(t, sh(t, s.Driver, sb, spec, "touch ~/mine; id -un"), "agent\n")
			})
		}
	})
}

// Who removes a sandbox that others are removing finds nothing of it afterwards.
func TestConcurrentRemoval(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		for range 3 {
			sb, _ := s.Up(t)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					assert.Check(t, s.Driver.Remove(t.Context(), sb))
					busy, err := s.Driver.Busy(t.Context(), sb)
					assert.Check(t, err)
					assert.Check(t, !busy)
					networks, err := e.Client(t).NetworkList(t.Context(), client.NetworkListOptions{Filters: make(client.Filters).Add("label", "io.github.docker-ralph.sandbox="+sb.Name)})
					assert.Check(t, err)
					assert.Check(t, is.Equal(len(networks.Items), 0))
				})
			}
			wg.Wait()
		}
	})
}

func TestCommitInALinkedWorktree(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		spec := s.NewSpec(t)
		main := spec.Root
		git := func(dir string, args ...string) string {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=u", "-c", "user.email=u@e", "-c", "safe.directory=*"}, args...)...)
			out, err := cmd.CombinedOutput()
			assert.NilError(t, err, string(out))
			return strings.TrimSpace(string(out))
		}
		linked := filepath.Join(filepath.Dir(main), "linked")
		git(main, "init", "-q", "-b", "main")
		git(main, "commit", "-q", "--allow-empty", "-m", "first")
		git(main, "worktree", "add", "-q", "-b", "other", linked)
		out, err := exec.CommandContext(t.Context(), "chown", "-R", "1234:2345", main, linked).CombinedOutput()
		assert.NilError(t, err, string(out))

		spec.Root = linked
		spec.Mounts = []string{filepath.Join(main, ".git")}
		spec.Probe = filepath.Join(main, ".git", "worktrees", "linked", "HEAD")
		sb := s.UpWith(t, spec)
		sh(t, s.Driver, sb, spec, "echo x > x && git add x && git -c user.name=a -c user.email=a@e commit -qm inside")
		assert.Equal(t, git(linked, "log", "-1", "--format=%s %an"), "inside a")
		assert.Equal(t, git(linked, "status", "--porcelain"), "")
	})
}

func TestRemoteEngineIsRejected(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		spec := s.NewSpec(t)
		for _, host := range []string{"ssh://user@far.example", "tcp://192.0.2.7:2376"} {
			d := &driver.Driver{API: e.Client(t), Host: host, StateDir: t.TempDir()}
			_, err := d.Create(t.Context(), spec)
			assert.ErrorContains(t, err, "the engine at "+host+" is remote")
		}

		// The engine behind a local socket does not have the folder.
		gone := spec
		gone.Root = filepath.Join(spec.Root, "not-there")
		gone.Git = func(context.Context) (*gitsync.Layout, error) { return &gitsync.Layout{Folder: gitsync.Folder}, nil }
		_, err := s.Driver.Create(t.Context(), gone)
		assert.ErrorContains(t, err, "mounting worktree "+gone.Root)
		has, err := s.Driver.(*driver.Driver).HasVolume(t.Context(), driver.GitVolumeOf(gone.Name))
		assert.NilError(t, err)
		assert.Assert(t, !has)

		// It has such a folder, but another one.
		assert.NilError(t, os.WriteFile(spec.Probe, []byte("what the engine sees\n"), 0o644))
		sb, err := s.Driver.Create(t.Context(), spec)
		assert.NilError(t, err)
		t.Cleanup(func() { assert.Check(t, s.Driver.Remove(context.WithoutCancel(t.Context()), sb)) })
		assert.NilError(t, s.Driver.Start(t.Context(), sb))
		other := spec
		other.Probe = filepath.Join(t.TempDir(), "HEAD")
		assert.NilError(t, os.WriteFile(other.Probe, nil, 0o644))
		assert.ErrorContains(t, s.Driver.Prepare(t.Context(), sb, other), "the engine does not share this machine's worktree")
		assert.Assert(t, !s.Driver.Ready(sb, spec))
	})
}

func TestBroadWorktreesAreRejected(t *testing.T) {
	t.Parallel()
	home, err := os.UserHomeDir()
	assert.NilError(t, err)
	d := &driver.Driver{Host: "unix:///nowhere", StateDir: t.TempDir()}
	for _, root := range []string{"/", home, filepath.Dir(home), `C:\src`, "/opt/ralph/x", "/opt"} {
		_, err := d.Create(t.Context(), lifecycle.Spec{Name: "x", Root: root, Scope: gitrepo.Scope{Repo: "r", Branch: "b"}})
		assert.Check(t, err != nil, root)
	}
}

func ensure(t *testing.T, d lifecycle.Driver, spec lifecycle.Spec, recreate bool) (lifecycle.Sandbox, error) {
	t.Helper()
	return ensureIn(t, t.TempDir(), d, spec, recreate)
}

func ensureIn(t *testing.T, locks string, d lifecycle.Driver, spec lifecycle.Spec, recreate bool) (lifecycle.Sandbox, error) {
	t.Helper()
	e := lifecycle.Ensurer{
		Driver:  d,
		LockDir: locks,
		Report:  func(message string) { t.Log(message) },
		Image:   func(context.Context) error { return nil },
	}
	return e.Ensure(t.Context(), spec, recreate)
}

// sh runs a shell command in the sandbox and returns both its outputs.
func sh(t *testing.T, d lifecycle.Driver, sb lifecycle.Sandbox, spec lifecycle.Spec, script string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := d.Exec(t.Context(), sb, lifecycle.Process{Args: []string{"sh", "-c", script}, Dir: spec.Root, Stdout: &out, Stderr: &out})
	assert.Check(t, err)
	assert.Check(t, is.Equal(code, 0), out.String())
	return out.String()
}

func remove(t *testing.T, api *client.Client, id string) {
	t.Helper()
	_, err := api.ContainerRemove(context.WithoutCancel(t.Context()), id, client.ContainerRemoveOptions{Force: true})
	assert.Check(t, err)
}
