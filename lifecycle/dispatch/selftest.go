package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/dockersandbox"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest"
	"github.com/docker-ralph/docker-ralph/scope"
)

// ErrSelfTest is returned by [SelfTest] when a check has failed.
var ErrSelfTest = errors.New("not everything works here")

// SelfTest tries a driver with sandboxes of its own, and reports each check. It
// touches no other sandbox.
func SelfTest(ctx context.Context, h Host, over config.Overrides, report func(drivertest.Result)) error {
	connected := h.connect()
	cfg, err := config.Load(config.Sources{UserDir: h.StateDir, Getenv: h.getenv, Overrides: over})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "docker-ralph-selftest-")
	if err != nil {
		return fmt.Errorf("making a folder for the test: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("making a folder for the test: %w", err)
	}
	wt := scope.Worktree{Root: dir, Scope: scope.Scope{Repo: "selftest/" + rand.Text(), Branch: "main"}}
	req, err := imageRequest(ctx, wt, cfg)
	if err != nil {
		return err
	}
	at, err := h.choose(ctx, wt, cfg, req, connected)
	if err != nil {
		return err
	}
	if err := h.ensurer(at, Options{}).Image(ctx); err != nil {
		return err
	}
	why := ""
	if at.why != "" {
		why = " (" + at.why + ")"
	}
	h.report(fmt.Sprintf("Trying the %s driver%s with the image %s", at.kind, why, at.image))
	failed := false
	suite := h.suite(at, cfg, dir)
	suite.Report(ctx, func(r drivertest.Result) {
		failed = failed || !r.OK
		report(r)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed:
		return ErrSelfTest
	default:
		return nil
	}
}

// suite makes a work tree and a name for every sandbox of the suite.
func (h Host) suite(at place, cfg config.Effective, dir string) drivertest.Suite {
	owner := lifecycle.User{UID: -1}
	if runtime.GOOS == "linux" {
		owner = lifecycle.User{UID: os.Getuid(), GID: os.Getgid()}
	}
	return drivertest.Suite{
		Driver:   at.driver,
		Owner:    owner,
		NoResize: at.kind == dockersandbox.Name,
		NewSpec: func(t drivertest.T) lifecycle.Spec {
			id := strings.ToLower(rand.Text()[:10])
			root := filepath.Join(dir, id)
			probe := filepath.Join(root, "probe")
			err := os.Mkdir(root, 0o755)
			if err == nil {
				err = os.WriteFile(probe, []byte(id), 0o644)
			}
			if err != nil {
				t.Fatalf("making a work tree: %v", err)
			}
			spec, err := h.spec(scope.Worktree{
				Root: root, MainRoot: root, GitDir: filepath.Join(root, ".git"), CommonDir: filepath.Join(root, ".git"),
				Scope: scope.Scope{Repo: "selftest/" + id, Branch: "main"},
			}, cfg, at)
			if err != nil {
				t.Fatalf("%v", err)
			}
			spec.Probe = probe
			return spec
		},
	}
}
