package manage

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/icmd"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/lifecycle/selftest"
)

// SIGTERM follows for a program that ignores the interrupt.
func TestInterruptAtEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	signals, stop := interruptAtEnd(ctx)
	defer stop()
	select {
	case sig := <-signals:
		t.Fatalf("there was %s before the end", sig)
	default:
	}
	cancel()
	assert.Equal(t, <-signals, os.Interrupt)
	assert.Equal(t, <-signals, syscall.SIGTERM)
}

// The self-test has its own scope, no prompts and one connection.
func TestNonInteractiveHost(t *testing.T) {
	connections := 0
	h := nonInteractive(host.Host{
		Engine:  func() (host.API, error) { connections++; return nil, nil },
		Confirm: func(context.Context, string) (bool, error) { return true, nil },
		LookupEnv: func(name string) (string, bool) {
			return map[string]string{"RALPH_SCOPE_REPO": "mine", "RALPH_SCOPE_BRANCH": "main", "RALPH_AGENT": "shell"}[name], true
		},
	})
	for range 2 {
		_, err := h.Engine()
		assert.NilError(t, err)
	}
	assert.Equal(t, connections, 1)
	assert.Assert(t, h.Confirm == nil)
	assert.Equal(t, h.Getenv("RALPH_SCOPE_REPO"), "")
	assert.Equal(t, h.Getenv("RALPH_SCOPE_BRANCH"), "")
	assert.Equal(t, h.Getenv("RALPH_AGENT"), "shell")
}

func TestForgetRemovesStateOfOneSandbox(t *testing.T) {
	s := &testSandbox{Host: host.Host{StateDir: t.TempDir()}, name: "ralph-selftest-x-main"}
	for _, name := range []string{s.name, "ralph-owner-repo-main"} {
		for _, path := range []string{
			"locks/" + name + ".lock", "locks/sbx-" + name + ".record", "scopes/" + name + "/dispatches/ID",
			"scopes/" + name + "/scope.json",
		} {
			file := filepath.Join(s.StateDir, path)
			assert.NilError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			assert.NilError(t, os.WriteFile(file, nil, 0o644))
		}
	}
	assert.NilError(t, s.forget())
	var left []string
	assert.NilError(t, filepath.WalkDir(s.StateDir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			left = append(left, path)
		}
		return err
	}))
	assert.Equal(t, len(left), 4, "left: %v", left)
	for _, path := range left {
		assert.Check(t, strings.Contains(path, "ralph-owner-repo-main"), path)
	}
}

// The project image is the one of the main worktree, with the configuration of the
// current directory.
func TestSelfTestProjectImage(t *testing.T) {
	const layer = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n"
	for _, tc := range []struct {
		name    string
		file    string // content of .agent-loop/Dockerfile.sandbox; empty for none
		toml    string // the repository's
		user    string // the user's configuration
		plain   bool   // no repository
		linked  bool   // in a linked worktree
		build   bool   // the driver's images are built
		none    bool
		skipped string
		failed  string
	}{
		{name: "none", none: true},
		{name: "none in a plain directory", plain: true, none: true},
		{name: "in a repository", file: layer, build: true},
		{name: "in a plain directory", file: layer, plain: true, build: true},
		{name: "in a linked worktree", file: layer, linked: true, build: true},
		{name: "invalid Dockerfile", file: "FROM debian\n", failed: "Dockerfile.sandbox: not based on the agent image"},
		{name: "a given image", file: "FROM debian\n", user: "[sandbox]\nimage = \"own:1\"\n", skipped: "image own:1 is used as it is ("},
		{name: "untrusted repository", file: layer, toml: "[image]\nbase = \"evil:1\"\n", skipped: "docker ralph trust"},
		{name: "invalid settings", file: layer, toml: "[image]\nbose = \"x\"\n", failed: "ralph.toml:2:"},
		{name: "driver without image builds", file: layer, skipped: "with the docker-sandbox driver, image given:1 is used as it is"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := projectMachine(t, tc.file, tc.toml, tc.user, tc.plain, tc.linked)
			m.at = run.Choice{Backend: host.Backend{Kind: "docker-sandbox"}, Image: "given:1", Build: tc.build}
			ensure, err := m.Project(t.Context())
			assert.Equal(t, ensure == nil && err == nil, tc.none)
			if ensure != nil && !tc.build {
				_, err = ensure(t.Context())
			}
			if tc.skipped+tc.failed == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.skipped+tc.failed)
			assert.Equal(t, selftest.IsSkip(err), tc.skipped != "")
		})
	}
}

// projectMachine returns a machine whose current directory is in a worktree.
func projectMachine(t *testing.T, file, toml, user string, plain, linked bool) *machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	root := filepath.Join(dir, "main")
	files := map[string]string{
		filepath.Join(root, ".agent-loop", "Dockerfile.sandbox"): file,
		filepath.Join(root, "ralph.toml"):                        toml,
		filepath.Join(dir, "state", "config.toml"):               user,
		filepath.Join(root, "sub", "file"):                       "x",
	}
	for path, content := range files {
		if content != "" {
			assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			assert.NilError(t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
	m := &machine{Host: host.Host{Dir: filepath.Join(root, "sub"), StateDir: filepath.Join(dir, "state")}}
	if plain {
		m.Dir = root
		return m
	}
	git := func(args ...string) {
		icmd.RunCmd(icmd.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)).Assert(t, icmd.Success)
	}
	git("init", "-q")
	git("add", "sub")
	git("commit", "-q", "-m", "first")
	if linked {
		m.Dir = filepath.Join(dir, "linked")
		git("worktree", "add", "-q", m.Dir)
	}
	return m
}
