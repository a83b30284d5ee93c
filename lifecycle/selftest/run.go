package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// The checks, in their order. Programs read these names.
const (
	CheckEngine       = "engine"
	CheckBuildKit     = "BuildKit"
	CheckDriver       = "driver"
	CheckAgentImage   = "agent image"
	CheckProjectImage = "build project image"
	CheckSandbox      = "sandbox"
	CheckRalph        = "ralph"
	CheckCommit       = "commit"
	CheckCleanUp      = "clean up"
)

// Time limits of checks. Images have none: they depend on the network.
const (
	limitAnswer  = 45 * time.Second // includes connecting with ssh
	limitSandbox = 5 * time.Minute  // includes copying an image
	limitCommand = 2 * time.Minute
	limitCleanUp = time.Minute
)

// Run runs all checks on a machine and reports each as it ends. It removes all that
// it has created. The error is [ErrFailed] if a check has failed, and wraps that of
// ctx if that has ended.
func Run(ctx context.Context, m Machine, report func(Result)) (err error) {
	dir, err := temporaryDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := &test{runner: runner{report: report, notPassed: map[string]string{}}, m: m, dir: dir}
	t.images(ctx)
	t.life(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case t.failed:
		return ErrFailed
	default:
		return nil
	}
}

// temporaryDir creates a directory and returns its path without symbolic links.
func temporaryDir() (string, error) {
	dir, err := os.MkdirTemp("", "docker-ralph-selftest-")
	if err != nil {
		return "", fmt.Errorf("creating the test directory: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", errors.Join(fmt.Errorf("creating the test directory: %w", err), os.RemoveAll(dir))
	}
	return resolved, nil
}

// test is one run of the self-test.
type test struct {
	runner
	m       Machine
	dir     string
	image   Image // of the sandbox
	sandbox Sandbox
	root    string // the repository
	said    string // by "ralph version" in the sandbox
}

// images checks the prerequisites of a sandbox.
func (t *test) images(ctx context.Context) {
	t.check(ctx, CheckEngine, limitAnswer, nil, t.engine)
	t.check(ctx, CheckBuildKit, limitAnswer, []string{CheckEngine}, t.buildKit)
	t.check(ctx, CheckDriver, limitCommand, nil, t.driver)
	t.check(ctx, CheckAgentImage, 0, []string{CheckDriver}, func(ctx context.Context) (string, error) {
		return t.use(t.m.AgentImage(ctx))
	})
	t.project(ctx)
}

// buildKit checks that the engine can build images.
func (t *test) buildKit(ctx context.Context) (string, error) {
	version, err := t.m.BuildKit(ctx)
	if err != nil {
		return "", t.optional(ctx, err)
	}
	if version == "" {
		version = "available"
	}
	return version, nil
}

// optional turns an error of the engine into a skipped check if the driver does not
// need one.
func (t *test) optional(ctx context.Context, err error) error {
	if d, _ := t.m.Driver(ctx); d.Name == "" || d.NeedsEngine {
		return err
	} else if ctx.Err() == nil {
		return Skip(fmt.Sprintf("not needed by the %s driver: %v", d.Name, err))
	}
	return err
}

func (t *test) driver(ctx context.Context) (string, error) {
	d, err := t.m.Driver(ctx)
	if err != nil {
		return "", err
	}
	if d.NeedsEngine {
		if err := t.unmet([]string{CheckEngine}); err != nil {
			return "", err
		}
	}
	return Image{Ref: d.Name, Note: d.Why}.String(), nil
}

// use selects the image of the sandbox. It does not repeat the error of the BuildKit
// check.
func (t *test) use(image Image, err error) (string, error) {
	if _, ok := errors.AsType[*projectimage.NoBuildKitError](err); ok {
		if unmet := t.unmet([]string{CheckBuildKit}); unmet != nil {
			return "", unmet
		}
	}
	if err != nil {
		return "", err
	}
	t.image = image
	return image.String(), nil
}

// project checks the project image of the current directory, if there is one. It
// checks its files even without an engine.
func (t *test) project(ctx context.Context) {
	begun := time.Now()
	ensure, err := t.m.Project(ctx)
	if ensure == nil && err == nil {
		return
	}
	detail := ""
	if err == nil {
		err = t.unmet([]string{CheckAgentImage})
	}
	if err == nil {
		detail, err = t.use(ensure(ctx))
	}
	if !interrupted(ctx, err) {
		t.add(result(CheckProjectImage, detail, err, time.Since(begun)))
	}
}

// life checks a sandbox from creation to removal. It removes it even if the user
// interrupts the self-test.
func (t *test) life(ctx context.Context) {
	t.check(ctx, CheckSandbox, limitSandbox, []string{CheckAgentImage}, t.create)
	t.check(ctx, CheckRalph, limitCommand, []string{CheckSandbox}, t.ralph)
	t.check(ctx, CheckCommit, limitCommand, []string{CheckSandbox}, t.commit) // even in another version
	begun := time.Now()
	detail, err := within(context.WithoutCancel(ctx), limitCleanUp, t.cleanUp)
	if res := result(CheckCleanUp, detail, err, time.Since(begun)); ctx.Err() == nil || res.Failed != "" {
		t.add(res)
	}
}

func (t *test) create(ctx context.Context) (string, error) {
	root, err := newRepository(ctx, t.dir)
	if err != nil {
		return "", err
	}
	t.root = root
	if t.sandbox, err = t.m.Sandbox(ctx, root, t.image); err != nil {
		return "", err
	}
	t.said, err = t.run(ctx, "version")
	return t.sandbox.Name(), err
}

// ralph checks the version of ralph in the sandbox.
func (t *test) ralph(context.Context) (string, error) {
	if want := "ralph " + t.m.Version(); t.said != want {
		return "", hint.Wrap(fmt.Errorf("the sandbox runs %q instead of %q", t.said, want), "reinstall docker-ralph: its programs are from different builds")
	}
	return t.said, nil
}

func (t *test) cleanUp(ctx context.Context) (string, error) {
	if t.sandbox == nil {
		return "", Skip("no sandbox was created")
	}
	return "removed " + t.sandbox.Name(), t.sandbox.Remove(ctx)
}
