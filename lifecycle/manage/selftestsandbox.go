package manage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/lifecycle/selftest"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// testSandbox is the sandbox of the self-test. It runs commands as usual.
type testSandbox struct {
	host.Host
	wt          gitrepo.Worktree
	cfg         config.Effective
	at          run.Choice
	name        string
	interrupted bool // a sandbox that was being created may still appear
}

// Sandbox implements [selftest.Machine]. The sandbox has the user's limits, network
// policy and workspace, but the shell agent, which needs no model, and no other
// settings.
func (m *machine) Sandbox(ctx context.Context, root string, image selftest.Image) (selftest.Sandbox, error) {
	wt, err := gitrepo.Detect(ctx, root, func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	agent := "shell"
	cfg, err := approval.Load(config.Sources{Overrides: config.Overrides{Agent: &agent}})
	if err != nil {
		return nil, err
	}
	cfg.Sandbox = m.cfg.Sandbox
	cfg.Sandbox.Driver, cfg.Sandbox.Image = m.at.Kind, image.Ref
	cfg.Sandbox.Reuse, cfg.Sandbox.Sign, cfg.Sandbox.GitToken = true, false, config.GitTokenNone
	s := &testSandbox{Host: m.Host, wt: wt, cfg: cfg, at: m.at}
	s.Dir = root
	s.name, err = wt.Scope.SandboxName()
	return s, err
}

// Name implements [selftest.Sandbox].
func (s *testSandbox) Name() string { return s.name }

// Ralph implements [selftest.Sandbox].
func (s *testSandbox) Ralph(ctx context.Context, out io.Writer, args ...string) (int, error) {
	var warnings bytes.Buffer // printed only if the command fails
	h := s.Host
	h.Stdout, h.Stderr = out, &warnings
	code, err := run.Run(ctx, h, run.Options{Command: args[0], Args: args[1:], Config: &s.cfg})
	s.interrupted = ctx.Err() != nil
	if err != nil || code != 0 {
		_, _ = out.Write(warnings.Bytes())
	}
	return code, err
}

// CreateTask implements [selftest.Sandbox].
func (s *testSandbox) CreateTask(ctx context.Context, id, title, step string) error {
	store, err := backlogs.Open(ctx, s.Host, s.wt)
	if err != nil {
		return err
	}
	return errors.Join(store.Create(ctx, backlog.NewTask{Slug: id, Title: title, Steps: []string{step}}), store.Close())
}

// appearTimeout is how long a sandbox may take to appear after its creation was
// interrupted.
const appearTimeout = 3 * time.Second

// Remove implements [selftest.Sandbox].
func (s *testSandbox) Remove(ctx context.Context) error {
	driver := s.at.Driver
	sb, err := driver.Lookup(ctx, s.name)
	for begun := time.Now(); err == nil && s.interrupted && sb.State == lifecycle.NotFound && time.Since(begun) < appearTimeout; {
		<-time.After(100 * time.Millisecond)
		sb, err = driver.Lookup(ctx, s.name)
	}
	if err != nil {
		return err
	}
	d, inContainer := driver.(*container.Driver)
	if sb.State == lifecycle.NotFound { // its proxy and volumes may exist
		sb = lifecycle.Sandbox{Name: s.name, ID: s.name, Egress: egress.Allowlist, Private: inContainer}
	}
	if err := errors.Join(gitsync.Abandon(s.StateDir, s.name), driver.Remove(ctx, sb)); err != nil {
		return err
	}
	if inContainer {
		if err := d.RemoveVolume(ctx, container.CacheVolume(s.Dir)); err != nil {
			return err
		}
	}
	return s.forget()
}

// forget removes all state files of the sandbox.
func (s *testSandbox) forget() error {
	paths, err := filepath.Glob(filepath.Join(s.LockDir(), "*"+s.name+"*"))
	for _, path := range append(paths, scopes.Dir(s.StateDir, s.name)) {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return fmt.Errorf("removing the records of %s: %w", s.name, err)
	}
	return nil
}
