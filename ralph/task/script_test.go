package task

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sqlshell"
)

// noExitPause disables the pause of the race detector at exit.
const noExitPause = "atexit_sleep_ms=0"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			env.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(env.WorkDir))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("HOSTNAME", "box7")
			env.Setenv("NL", "\n") // cannot be quoted in a script
			env.Setenv("GORACE", noExitPause)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"repo":  makeRepo,
			"sql":   runSQL,
			"exits": expectExit,
		},
	})
}

// makeRepo initializes a repository with an origin in the current directory: repo
func makeRepo(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(ts.Exec("git", "init", "-q", "-b", "main"))
	ts.Check(ts.Exec("git", "remote", "add", "origin", "git@github.com:acme/shop.git"))
}

// runSQL runs SQL; "stdout" checks its output: sql 'SELECT ...'
func runSQL(ts *testscript.TestScript, _ bool, args []string) {
	out, err := sqlshell.Run(context.Background(), ts.MkAbs(".ralph/tasks.db"), strings.Join(args, " ")) //nolint:forbidigo // a command of a script has no context
	ts.Check(err)
	_, _ = fmt.Fprint(ts.Stdout(), out)
}

// expectExit runs a command that must fail with an exit code, the given stderr (\n
// is a newline) and no stdout: exits <code> <stderr> <program> [args]
func expectExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: exits <code> <error> <program> [args]")
	}
	err := ts.Exec(args[2], args[3:]...)
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) {
		ts.Fatalf("%q: want exit code %s, got: %v", args[2:], args[0], err)
	}
	if got := strconv.Itoa(exit.ExitCode()); got != args[0] {
		ts.Fatalf("%q: want exit code %s, got %s: %s", args[2:], args[0], got, ts.ReadFile("stderr"))
	}
	want := strings.ReplaceAll(args[1], `\n`, "\n") + "\n"
	if got := ts.ReadFile("stderr"); got != want {
		ts.Fatalf("%q: want on stderr\n%s\ngot\n%s", args[2:], want, got)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("%q: prints on stdout: %s", args[2:], out)
	}
}
