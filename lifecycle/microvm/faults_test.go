//go:build unix

package microvm_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// exec runs a shell script in a sandbox, with a unique ID: process trees see each other's
// dispatches.
func (b *fixture) exec(t *testing.T, sb lifecycle.Sandbox, script string) (code int, out string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code, err = b.driver.Exec(t.Context(), sb, lifecycle.Process{
		ID: rand.Text(), Args: []string{"sh", "-c", script}, Dir: sb.Root, Stdout: &stdout, Stderr: &stderr,
	})
	return code, stdout.String(), err
}

// Known additions to the output of the programs are ignored.
func TestUnusualOutput(t *testing.T) {
	parallelUnlessSubprocess(t)
	forEachDriver(t, func(t *testing.T, kind string) {
		if !inSubprocess(t) {
			tryUnusualOutput(t, kind)
		}
	})
}

func tryUnusualOutput(t *testing.T, kind string) {
	for name, change := range map[string]func(*sandboxcli.Settings){
		"a notice":               func(s *sandboxcli.Settings) { s.Faults.UpdateNotice = true },
		"lines about the daemon": func(s *sandboxcli.Settings) { s.DaemonUp, s.Faults.StartLinesStdout = false, true },
		"both": func(s *sandboxcli.Settings) {
			s.DaemonUp, s.Faults.StartLinesStdout, s.Faults.UpdateNotice = false, true, true
		},
		"no IDs":         func(s *sandboxcli.Settings) { s.Faults.NoID = true },
		"no workspaces":  func(s *sandboxcli.Settings) { s.Faults.NoWorkspaces = true },
		"new fields":     func(s *sandboxcli.Settings) { s.Faults.ExtraFields = true },
		"the oldest sbx": func(s *sandboxcli.Settings) { s.Version = "0.47.0" },
		"an sbx between": func(s *sandboxcli.Settings) { s.Version = "0.50.1" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, kind, change)
			sb, _ := b.create(t)
			b.fake.Set(t, change)
			found, err := b.driver.Lookup(t.Context(), sb.Name)
			assert.NilError(t, err)
			assert.Equal(t, found.State, lifecycle.Running)
			assert.Assert(t, b.driver.Ready(found, lifecycle.Spec{}))
			code, out, err := b.exec(t, found, "echo works; exit 1")
			assert.NilError(t, err)
			assert.Equal(t, out, "works\n")
			assert.Equal(t, code, 1)
		})
	}
}

// Each failure has its own error and hint, and none means that the sandbox does not exist.
func TestFaultIsNotNotFound(t *testing.T) {
	parallelUnlessSubprocess(t)
	forEachDriver(t, func(t *testing.T, kind string) {
		if !inSubprocess(t) {
			tryFaults(t, kind)
		}
	})
}

func tryFaults(t *testing.T, kind string) {
	const (
		both = ""
		late = "did not answer within"
	)
	lapse := 0
	b := newFixture(t, kind, nil)
	sb, _ := b.create(t)
	for _, tc := range []struct {
		name, kind string
		change     func(*sandboxcli.Settings)
		err        string
	}{
		{"half a list", both, func(s *sandboxcli.Settings) { s.Faults.TruncatedList = true }, `ls --json": parsing the JSON`},
		{"garbage", both, func(s *sandboxcli.Settings) { s.Faults.GarbageList = true }, "parsing the output of"},
		{"a list that hangs", both, func(s *sandboxcli.Settings) { s.Faults.HangList = true }, late},
		{
			"a list that hangs on", both,
			func(s *sandboxcli.Settings) {
				s.Faults.HangList, s.Faults.IgnoreSIGTERM = true, sandboxcli.Duration(30*time.Second)
			},
			late,
		},
		{"logged out", microvm.Sbx, func(s *sandboxcli.Settings) { s.LoggedIn = false }, `log in with "sbx login"`},
		{"a lapsed login", microvm.Sbx, func(s *sandboxcli.Settings) { s.Faults.LoginLapseAfter = &lapse }, `log in with "sbx login"`},
		{"no daemon", microvm.Sbx, func(s *sandboxcli.Settings) { s.DaemonUp, s.Faults.NoDaemon = false, true }, `start it with "sbx daemon start --detach"`},
		{"the removed plugin", microvm.DockerSandbox, func(s *sandboxcli.Settings) { s.Faults.Removed = true }, `this Docker Desktop has no "docker sandbox" (4.80 removed it)`},
		{"the removed plugin, with a code", microvm.DockerSandbox, func(s *sandboxcli.Settings) { s.Faults.Removed, s.Faults.RemovedExit = true, 1 }, `has no "docker sandbox"`},
		{
			"the removed plugin, on stderr", microvm.DockerSandbox,
			func(s *sandboxcli.Settings) {
				s.Faults.Removed, s.Faults.RemovedExit, s.Faults.RemovedStderr = true, 1, true
			},
			`has no "docker sandbox"`,
		},
	} {
		if tc.kind != both && tc.kind != kind {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			b.fake.Set(t, tc.change)
			if tc.err == late {
				b.driver.TimeScale = 0.02 // 30 s become 600 ms
			}
			begin := time.Now()
			_, err := b.driver.Lookup(t.Context(), sb.Name)
			assert.Check(t, is.Contains(microvm.WithHints(err), tc.err))
			assert.Assert(t, time.Since(begin) < 15*time.Second)

			b.driver.TimeScale = 0
			b.fake.Set(t, func(s *sandboxcli.Settings) { *s = sandboxcli.Defaults() })
			found, err := b.driver.Lookup(t.Context(), sb.Name)
			assert.NilError(t, err)
			assert.Equal(t, found.State, lifecycle.Running)
		})
	}
}

// An empty list does not mean that a recorded sandbox does not exist.
func TestEmptyListIsUnknownState(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	forEachDriver(t, func(t *testing.T, kind string) {
		b := newFixture(t, kind, nil)
		for _, tc := range []struct {
			name   string
			change func(*sandboxcli.Settings)
			why    string
		}{
			{"the engine is lost", func(s *sandboxcli.Settings) { s.Faults.EmptyList = true }, "lists no sandboxes at all, but this one was created; "},
			{"the sandbox is lost", func(s *sandboxcli.Settings) { s.Faults.VanishOnSleep = true }, "by name, it is not found either"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				sb, spec := b.create(t)
				b.fake.Set(t, tc.change)
				found, err := b.driver.Lookup(t.Context(), sb.Name)
				assert.NilError(t, err)
				assert.Equal(t, found.State, lifecycle.Unknown)
				assert.Assert(t, is.Contains(found.Why, tc.why))

				e := &lifecycle.Ensurer{
					Driver: b.driver, LockDir: t.TempDir(), Report: func(string) {},
					Image: func(context.Context) error { t.Error("nothing is to be made"); return nil },
				}
				_, err = e.Ensure(t.Context(), spec, false)
				assert.ErrorContains(t, err, "unknown state")
				b.fake.Set(t, func(s *sandboxcli.Settings) { *s = sandboxcli.Defaults() })
			})
		}
	})
}

// A list with other sandboxes is trusted.
func TestListWithOthersMeansNotFound(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	forEachDriver(t, func(t *testing.T, kind string) {
		b := newFixture(t, kind, nil)
		b.create(t)
		sb, spec := b.create(t)
		args := b.driver.RemoveCommand(sb.Name)
		remove := b.fake.Sbx(t.Context(), args[1:]...)
		if kind == microvm.DockerSandbox {
			remove = b.fake.Plugin(t.Context(), args[2:]...)
		}
		out, err := remove.CombinedOutput()
		assert.NilError(t, err, string(out))
		found, err := b.driver.Lookup(t.Context(), sb.Name)
		assert.NilError(t, err)
		assert.Equal(t, found.State, lifecycle.NotFound)
		again := b.suite(t).UpWith(t, spec)
		assert.Equal(t, again.State, lifecycle.Running)
	})
}

func TestCreateFails(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	b := newFixture(t, microvm.Sbx, nil)
	for _, tc := range []struct {
		name   string
		change func(*sandboxcli.Settings)
		err    string
	}{
		{"no policy", func(s *sandboxcli.Settings) { s.PolicyInitialised = false }, `set one with "sbx policy init balanced"`},
		{"no KVM", func(s *sandboxcli.Settings) { s.Faults.KVM = true }, "this machine has no KVM"},
		{"logged out", func(s *sandboxcli.Settings) { s.LoggedIn = false }, `log in with "sbx login"`},
		{"no daemon", func(s *sandboxcli.Settings) { s.DaemonUp, s.Faults.NoDaemon = false, true }, `start it with "sbx daemon start --detach"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b.fake.Set(t, tc.change)
			spec := b.spec(t)
			_, err := b.driver.Create(t.Context(), spec)
			assert.Check(t, is.Contains(microvm.WithHints(err), tc.err))
			b.fake.Set(t, func(s *sandboxcli.Settings) { *s = sandboxcli.Defaults() })
			found, err := b.driver.Lookup(t.Context(), spec.Name)
			assert.NilError(t, err)
			assert.Equal(t, found.State, lifecycle.NotFound)
			b.suite(t).UpWith(t, spec)
		})
	}
}

// The program's client dies before or after it has created the sandbox.
func TestCrashDuringCreate(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	for name, tc := range map[string]struct {
		change func(*sandboxcli.Settings)
		state  lifecycle.State
	}{
		"before": {func(s *sandboxcli.Settings) { s.Faults.CrashBeforeCreate = true }, lifecycle.NotFound},
		"after":  {func(s *sandboxcli.Settings) { s.Faults.CrashAfterCreate = true }, lifecycle.Running},
	} {
		t.Run(name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, kind string) {
				b := newFixture(t, kind, tc.change)
				spec := b.spec(t)
				_, err := b.driver.Create(t.Context(), spec)
				assert.ErrorContains(t, err, "creating sandbox "+spec.Name)
				b.fake.Set(t, func(s *sandboxcli.Settings) { *s = sandboxcli.Defaults() })
				found, err := b.driver.Lookup(t.Context(), spec.Name)
				assert.NilError(t, err)
				assert.Equal(t, found.State, tc.state)

				e := &lifecycle.Ensurer{
					Driver: b.driver, LockDir: t.TempDir(), Report: func(string) {},
					Image: func(context.Context) error { return nil },
				}
				sb, err := e.Ensure(t.Context(), spec, false)
				assert.NilError(t, err)
				t.Cleanup(func() { assert.Check(t, b.driver.Remove(context.WithoutCancel(t.Context()), sb)) })
				_, out, err := b.exec(t, sb, "echo works")
				assert.NilError(t, err)
				assert.Equal(t, out, "works\n")
			})
		})
	}
}

// A sandbox of that name without a record is not used.
func TestForeignSandbox(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	forEachDriver(t, func(t *testing.T, kind string) {
		b := newFixture(t, kind, nil)
		spec := b.spec(t)
		create := []string{"create", "--name", spec.Name, "shell", spec.Root}
		make := b.fake.Sbx(t.Context(), create...)
		if kind == microvm.DockerSandbox {
			make = b.fake.Plugin(t.Context(), create...)
		}
		out, err := make.CombinedOutput()
		assert.NilError(t, err, string(out))
		_, err = b.driver.Lookup(t.Context(), spec.Name)
		var foreign *lifecycle.ForeignError
		assert.Assert(t, errors.As(err, &foreign), "%v", err)
		assert.Error(t, err, "the name "+spec.Name+" is in use by a sandbox of "+kind+" that this client did not create")
		_, err = b.driver.Create(t.Context(), spec)
		assert.ErrorIs(t, err, lifecycle.ErrExists)
		all, err := b.driver.List(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, len(all), 0)
	})
}

// Hidden commands have timeouts.
func TestHangingExec(t *testing.T) {
	parallelUnlessSubprocess(t)
	forEachDriver(t, func(t *testing.T, kind string) {
		if inSubprocess(t) {
			return
		}
		b := newFixture(t, kind, nil)
		sb, spec := b.create(t)
		b.fake.Set(t, func(s *sandboxcli.Settings) {
			s.Faults.HangExec, s.Faults.IgnoreSIGTERM = true, sandboxcli.Duration(20*time.Second)
		})
		t.Cleanup(func() {
			b.fake.Set(t, func(s *sandboxcli.Settings) { *s = sandboxcli.Defaults() })
			b.driver.TimeScale = 0
		})
		b.driver.TimeScale = 0.001
		begin := time.Now()
		assert.ErrorContains(t, b.driver.Prepare(t.Context(), sb, spec), "did not answer within")
		_, err := b.driver.Busy(t.Context(), sb)
		assert.ErrorContains(t, err, "did not answer within")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, lifecycle.Signal(ctx, b.driver, sb, os.Interrupt, rand.Text()), context.DeadlineExceeded)
		assert.Assert(t, time.Since(begin) < 40*time.Second)
	})
}

// Another ralph in the sandbox, or an older one, is replaced.
func TestRalphIsReinstalled(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	forEachDriver(t, func(t *testing.T, kind string) {
		b := newFixture(t, kind, nil)
		sb, spec := b.create(t)
		code, out, err := b.exec(t, sb, "cat ~/.ralph/.bootstrapped; rm ~/.local/bin/ralph")
		assert.NilError(t, err)
		assert.Equal(t, code, 0)
		assert.Assert(t, is.Contains(out, `"version":"test"`))

		_, err = b.driver.Exec(t.Context(), sb, lifecycle.Process{ID: rand.Text(), Args: []string{"ralph", "version"}, Dir: spec.Root})
		assert.ErrorIs(t, err, lifecycle.ErrNotPrepared)
		assert.Assert(t, !b.driver.Ready(sb, spec))
		assert.NilError(t, b.driver.Prepare(t.Context(), sb, spec))
		code, err = b.driver.Exec(t.Context(), sb, lifecycle.Process{ID: rand.Text(), Args: []string{"ralph", "version"}, Dir: spec.Root})
		assert.NilError(t, err)
		assert.Equal(t, code, 0)
		// The marker of an older version.
		_, _, err = b.exec(t, sb, `echo '{"version":"old","hash":"00","path":"x"}' > ~/.ralph/.bootstrapped; echo old > ~/.local/bin/ralph.new; mv ~/.local/bin/ralph.new ~/.local/bin/ralph; chmod 755 ~/.local/bin/ralph`)
		assert.NilError(t, err)
		spec.Version = "newer"
		assert.NilError(t, b.driver.Prepare(t.Context(), sb, spec))
		_, out, err = b.exec(t, sb, "cat ~/.ralph/.bootstrapped")
		assert.NilError(t, err)
		assert.Assert(t, is.Contains(out, `"version":"newer"`))
	})
}

// A prepared sandbox has lost its mount.
func TestMissingMountIsRecreated(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	forEachDriver(t, func(t *testing.T, kind string) {
		b := newFixture(t, kind, nil)
		sb, spec := b.create(t)
		assert.NilError(t, os.RemoveAll(filepath.Join(b.state, "guest")))
		_, err := b.driver.Exec(t.Context(), sb, lifecycle.Process{ID: rand.Text(), Args: []string{"ralph", "version"}, Dir: spec.Root})
		assert.ErrorIs(t, err, lifecycle.ErrNotPrepared)
		assert.Assert(t, !b.driver.Ready(sb, spec))
		assert.NilError(t, b.driver.Prepare(t.Context(), sb, spec))
		code, err := b.driver.Exec(t.Context(), sb, lifecycle.Process{ID: rand.Text(), Args: []string{"ralph", "version"}, Dir: spec.Root})
		assert.NilError(t, err)
		assert.Equal(t, code, 0)
	})
}

// An agent may have written to the mount: the plugin may ignore that it is read-only.
func TestMountedRalphIsVerified(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	b := newFixture(t, microvm.Sbx, nil)
	sb, spec := b.create(t)
	found, err := filepath.Glob(filepath.Join(b.state, "guest", "*", "ralph"))
	assert.NilError(t, err)
	assert.Equal(t, len(found), 1)
	good, err := os.ReadFile(found[0])
	assert.NilError(t, err)
	assert.NilError(t, os.Remove(found[0]))
	assert.NilError(t, os.WriteFile(found[0], []byte("#!/bin/sh\necho evil\n"), 0o755))
	assert.NilError(t, b.driver.Prepare(t.Context(), sb, spec))
	now, err := os.ReadFile(found[0])
	assert.NilError(t, err)
	assert.Assert(t, bytes.Equal(now, good))
}
