package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

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

// How long checks may take. Images may take as long as the network does.
const (
	limitAnswer  = 45 * time.Second // ssh may connect first
	limitSandbox = 5 * time.Minute  // an image may have to be copied
	limitCommand = 2 * time.Minute
	limitCleanUp = time.Minute
)

// Run runs all checks on a machine and reports each when it is over. Whatever
// happens, what was made for it is removed. The error is [ErrFailed] when a check has
// failed, and wraps ctx's when that has ended.
func Run(ctx context.Context, m Machine, report func(Result)) (err error) {
	dir, err := temporaryFolder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := &test{runner: runner{report: report, not: map[string]string{}}, m: m, dir: dir}
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

// temporaryFolder makes a folder whose path has no symbolic links, as work
// trees have it.
func temporaryFolder() (string, error) {
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
	image   Image // what the sandbox is made from
	sandbox Sandbox
	root    string // the repository
	runs    bool   // ralph runs in the sandbox
}

// images checks all that has to be there before a sandbox can be made.
func (t *test) images(ctx context.Context) {
	t.check(ctx, CheckEngine, limitAnswer, nil, t.engine)
	t.check(ctx, CheckBuildKit, limitAnswer, []string{CheckEngine}, t.buildKit)
	t.check(ctx, CheckDriver, limitCommand, nil, t.driver)
	t.check(ctx, CheckAgentImage, 0, []string{CheckDriver}, func(ctx context.Context) (string, error) {
		return t.take(t.m.AgentImage(ctx))
	})
	t.project(ctx)
}

// buildKit may be missing where the driver does without the engine: its images
// can come from elsewhere.
func (t *test) buildKit(ctx context.Context) (string, error) {
	version, err := t.m.BuildKit(ctx)
	if err != nil {
		return "", t.optional(ctx, err)
	}
	if version == "" {
		version = "it answers"
	}
	return version, nil
}

// optional turns a fault of the engine into a reason to go on without one,
// where the driver can.
func (t *test) optional(ctx context.Context, err error) error {
	if d, _ := t.m.Driver(ctx); d.Name == "" || d.NeedsEngine {
		return err
	} else if ctx.Err() == nil {
		return Skip(fmt.Sprintf("the %s driver can do without: %v", d.Name, err))
	}
	return err
}

func (t *test) driver(ctx context.Context) (string, error) {
	d, err := t.m.Driver(ctx)
	if err != nil {
		return "", err
	}
	if d.NeedsEngine {
		if err := t.lacks([]string{CheckEngine}); err != nil {
			return "", err
		}
	}
	return Image{Ref: d.Name, Note: d.Why}.String(), nil
}

// take takes an image for the sandbox. What is said of BuildKit already is not
// said again.
func (t *test) take(image Image, err error) (string, error) {
	if _, ok := errors.AsType[*projectimage.NoBuildKitError](err); ok {
		if lacks := t.lacks([]string{CheckBuildKit}); lacks != nil {
			return "", lacks
		}
	}
	if err != nil {
		return "", err
	}
	t.image = image
	return image.String(), nil
}

// project checks the image that the current folder asks for, if it does. Its
// files are read in any case: they need no engine.
func (t *test) project(ctx context.Context) {
	begun := time.Now()
	ensure, err := t.m.Project(ctx)
	if ensure == nil && err == nil {
		return
	}
	detail := ""
	if err == nil {
		err = t.lacks([]string{CheckAgentImage})
	}
	if err == nil {
		detail, err = t.take(ensure(ctx))
	}
	if !interrupted(ctx, err) {
		t.add(result(CheckProjectImage, detail, err, time.Since(begun)))
	}
}

// life checks the life of a sandbox, from its creation to its end. A user who
// ends it early has no patience, but does not want anything to stay either.
func (t *test) life(ctx context.Context) {
	t.check(ctx, CheckSandbox, limitSandbox, []string{CheckAgentImage}, t.make)
	t.check(ctx, CheckRalph, limitCommand, []string{CheckSandbox}, t.ralph)
	needs := []string{CheckRalph}
	if t.runs { // whatever its version is
		needs = []string{CheckSandbox}
	}
	t.check(ctx, CheckCommit, limitCommand, needs, t.commit)
	begun := time.Now()
	detail, err := within(context.WithoutCancel(ctx), limitCleanUp, t.cleanUp)
	if res := result(CheckCleanUp, detail, err, time.Since(begun)); ctx.Err() == nil || res.Failed != "" {
		t.add(res)
	}
}

func (t *test) make(ctx context.Context) (string, error) {
	root, err := newRepository(ctx, t.dir)
	if err != nil {
		return "", err
	}
	t.root = root
	if t.sandbox, err = t.m.Sandbox(ctx, root, t.image); err != nil {
		return "", err
	}
	_, err = t.run(ctx, "task", "list")
	return t.sandbox.Name(), err
}

// ralph compares the version of the ralph inside with ours.
func (t *test) ralph(ctx context.Context) (string, error) {
	said, err := t.run(ctx, "version")
	if err != nil {
		return "", err
	}
	t.runs = true
	if want := "ralph " + t.m.Version(); said != want {
		return "", &remedied{fmt.Errorf("the sandbox runs %q instead of %q", said, want), "reinstall docker-ralph: its programs are from different builds"}
	}
	return said, nil
}

// cleanUp removes the sandbox.
func (t *test) cleanUp(ctx context.Context) (string, error) {
	if t.sandbox == nil {
		return "", Skip("no sandbox was made")
	}
	return "removed " + t.sandbox.Name(), t.sandbox.Remove(ctx)
}
