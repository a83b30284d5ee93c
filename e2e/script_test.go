//go:build unix

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts are the command lines that no engine is needed for: DOCKER_HOST
// leads nowhere.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup:               setUpScript,
		Condition: func(name string) (bool, error) {
			if name != "plugin-completion" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return shared.client >= tellsPlugins, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": expectExit,
			"repo":  makeRepo,
			"same":  sameOutput,
		},
	})
}

func setUpScript(env *testscript.Env) error {
	config, home := filepath.Join(env.WorkDir, ".docker"), filepath.Join(env.WorkDir, ".home")
	plugins := filepath.Join(config, "cli-plugins")
	for _, v := range [][2]string{
		{"HOME", home},
		{"DOCKER_CONFIG", config},
		{"DOCKER_HOST", "unix:///nonexistent/docker.sock"},
		{"GIT_CONFIG_GLOBAL", os.DevNull},
		{"GIT_CONFIG_NOSYSTEM", "1"},
		{"GIT_CEILING_DIRECTORIES", filepath.Dir(env.WorkDir)},
		{"PATH", shared.bin + ":" + plugins + ":/usr/local/bin:/usr/bin:/bin"},
		{"NL", "\n"},
		{"DOLLAR", "$"},
	} {
		env.Setenv(v[0], v[1])
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return err
	}
	only := filepath.Join(env.WorkDir, ".git-only") // a machine without docker
	return errors.Join(os.MkdirAll(plugins, 0o755), os.Mkdir(home, 0o755), os.Mkdir(only, 0o755),
		os.Symlink(git, filepath.Join(only, "git")),
		os.Symlink(shared.plugin, filepath.Join(plugins, "docker-ralph")))
}

// makeRepo makes the current folder a work tree on branch main with one
// commit and an origin: repo
func makeRepo(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(ts.Exec("git", "init", "-q", "-b", "main"))
	ts.Check(ts.Exec("git", "-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-q", "--allow-empty", "-m", "first"))
	ts.Check(ts.Exec("git", "remote", "add", "origin", "https://git.example/acme/shop.git"))
}

// expectExit runs a program that has to exit with this code: exits CODE
// PROGRAM ARG...
func expectExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%s cannot be run: %v", args[1], err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("%q exited with %d, not %d", args[1:], code, want)
	}
}

// sameOutput compares the last command's standard output with a file of the
// repository that these tests are part of: same PATH
func sameOutput(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: same PATH")
	}
	want, err := os.ReadFile(filepath.Join(shared.root, filepath.FromSlash(args[0])))
	ts.Check(err)
	if got := ts.ReadFile("stdout"); !bytes.Equal([]byte(got), want) {
		ts.Fatalf("the output is not %s:\n%s", args[0], got)
	}
}
