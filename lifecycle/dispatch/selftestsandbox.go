package dispatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/selftest"
)

// testSandbox is the sandbox of the self-test.
type testSandbox struct {
	Host
	wt   gitrepo.Worktree
	cfg  config.Effective
	at   place
	spec lifecycle.Spec
	made lifecycle.Sandbox
	cut  bool // making it was interrupted: it may appear later
}

// Sandbox implements [selftest.Machine]. The sandbox has the user's limits and
// kind of git, but the agent that needs no model, and nothing else of the
// configuration that could get in its way.
func (m *machine) Sandbox(ctx context.Context, root string, image selftest.Image) (selftest.Sandbox, error) {
	wt, err := gitrepo.Detect(ctx, root, func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	agent := "shell"
	cfg, err := loadConfig(config.Sources{Overrides: config.Overrides{Agent: &agent}})
	if err != nil {
		return nil, err
	}
	cfg.Sandbox = m.cfg.Sandbox
	cfg.Origins[gitKey] = m.cfg.Origins[gitKey]
	cfg.Sandbox.Reuse = true
	if err := checkPrivate(wt, cfg, m.at.kind); err != nil {
		return nil, err
	}
	s := &testSandbox{Host: m.Host, wt: wt, cfg: cfg}
	if s.at, err = m.placeOf(wt); err != nil {
		return nil, err
	}
	s.at.image, s.at.build = image.Ref, false // it is there
	if s.spec, err = m.spec(wt, cfg, s.at); err == nil {
		s.spec.Cache = "" // of a repository that goes
		quiet := m.Host
		quiet.Stderr = io.Discard // what git can do is no finding about this machine
		err = quiet.ownGit(ctx, wt, &s.at, &s.spec)
	}
	return s, err
}

// placeOf is the place of the image for the sandbox of another worktree, which has
// a name of its own.
func (m *machine) placeOf(wt gitrepo.Worktree) (at place, err error) {
	at = m.at
	at.name, err = wt.Scope.SandboxName()
	return at, err
}

// Name implements [selftest.Sandbox].
func (s *testSandbox) Name() string { return s.spec.Name }

// Make implements [selftest.Sandbox].
func (s *testSandbox) Make(ctx context.Context) (err error) {
	s.made, err = s.ensurer().Ensure(ctx, s.spec, false)
	s.cut = ctx.Err() != nil
	return err
}

// ensurer is that of every dispatch, but silent.
func (s *testSandbox) ensurer() *lifecycle.Ensurer {
	e := s.Host.ensurer(s.at, Options{})
	e.Report = func(string) {}
	return e
}

// Ralph implements [selftest.Sandbox].
func (s *testSandbox) Ralph(ctx context.Context, out io.Writer, args ...string) (int, error) {
	h := s.Host
	var aside bytes.Buffer // warnings to the user among others, which are no output of ralph
	h.Stdout, h.Stderr = out, &aside
	env, err := h.environment(ctx, s.wt, s.cfg, s.at, false, args[0])
	if err != nil {
		return 0, err
	}
	code, _, err := h.ensureAndExecute(ctx, s.at, s.spec, s.ensurer(), Options{Command: args[0]}, lifecycle.Process{
		ID:   rand.Text(),
		Args: append([]string{"ralph"}, args...),
		Env:  env,
		Dir:  filepath.ToSlash(s.wt.Root),
	})
	if err != nil || code != 0 {
		_, _ = out.Write(aside.Bytes()) // into memory
	}
	return code, err
}

// Collect implements [selftest.Sandbox].
func (s *testSandbox) Collect(ctx context.Context) (string, error) {
	if s.at.git != nil {
		h := s.Host
		h.Stderr = io.Discard
		return "refs/heads/" + s.wt.Scope.Branch, h.bringOut(ctx, s.at, s.made)
	}
	if !s.made.Private {
		return "refs/heads/" + s.wt.Scope.Branch, nil
	}
	return collected(s.made.Name) + "/" + s.wt.Scope.Branch, collect(ctx, s.wt, s.made)
}

// appearance is how long a sandbox may take to be there after making it was
// interrupted.
const appearance = 3 * time.Second

// Remove implements [selftest.Sandbox].
func (s *testSandbox) Remove(ctx context.Context) ([]string, error) {
	driver := s.at.driver
	sb, err := driver.Lookup(ctx, s.spec.Name)
	for begun := time.Now(); err == nil && s.cut && sb.State == lifecycle.NotFound && time.Since(begun) < appearance; {
		<-time.After(100 * time.Millisecond)
		sb, err = driver.Lookup(ctx, s.spec.Name)
	}
	if err != nil {
		return nil, err
	}
	known, err := s.labelled(ctx)
	there := sb.State != lifecycle.NotFound
	if !there {
		// What was made around it goes too, and what is remembered of it.
		sb = lifecycle.Sandbox{Name: s.spec.Name, ID: s.spec.Name, Egress: s.spec.Egress.Policy.Mode, Private: s.at.git != nil}
	}
	if s.at.git != nil { // what was committed for the test alone is worth nothing
		err = errors.Join(err, gitsync.Abandon(s.StateDir, s.spec.Name))
	}
	if err := errors.Join(err, driver.Remove(ctx, sb)); err != nil {
		return nil, err
	}
	if there && len(known) == 0 && s.at.kind == config.DriverContainer {
		return nil, fmt.Errorf("nothing of the sandbox %s had the label %s, so nobody can tell what is left", sb.Name, sandboxLabel)
	}
	return s.left(ctx)
}

// sandboxLabel is on all that belongs to a sandbox of the container driver, with
// the sandbox's name.
const sandboxLabel = "io.github.docker-ralph.sandbox"

// labelled names what belongs to the sandbox on the engine.
func (s *testSandbox) labelled(ctx context.Context) ([]string, error) {
	if s.at.kind != config.DriverContainer {
		return nil, nil
	}
	engine, ok := s.at.api.(selftest.Inventory)
	if !ok {
		return nil, fmt.Errorf("the engine at %s cannot be asked for what it has", s.at.api.DaemonHost())
	}
	return selftest.Labelled(ctx, engine, sandboxLabel+"="+s.spec.Name)
}

// left returns what there is of a sandbox that was removed.
func (s *testSandbox) left(ctx context.Context) ([]string, error) {
	noted, err := s.forget()
	if err != nil {
		return nil, err
	}
	sb, err := s.at.driver.Lookup(ctx, s.spec.Name)
	if err != nil {
		return nil, err
	}
	left, err := s.labelled(ctx)
	if len(left) == 0 && sb.State != lifecycle.NotFound {
		left = append(left, "the sandbox itself, which is "+string(sb.State))
	}
	return append(left, noted...), err
}

// forget removes the locks, notes and copies of the backlog that outlive a
// dispatch, and returns the other files about this sandbox.
func (s *testSandbox) forget() (left []string, err error) {
	err = filepath.WalkDir(s.StateDir, func(path string, _ fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case path == s.noteDir(s.spec.Name), path == s.copyDir(s.spec.Name):
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return fs.SkipDir
		case !strings.Contains(filepath.Base(path), s.spec.Name):
			return nil
		case filepath.Dir(path) == s.lockDir():
			return os.Remove(path)
		}
		left = append(left, path)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("clearing away what was noted of %s: %w", s.spec.Name, err)
	}
	return left, nil
}
