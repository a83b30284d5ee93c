//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// The command line: forwarding of arguments, streams and exit codes, completion,
// and scripts.

func TestArgumentsArePassedVerbatim(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		all := []string{
			" two  blanks ",
			`it's "quoted"`,
			"two\nlines",
			"tab\tand bell\a",
			"--",
			"-",
			"-H",
			"--context",
			"--config=/nowhere",
			"--agent",
			"--version",
			"日本語 🐳",
			"$HOME `id` $(id) \\ * ? !",
			"%s %d",
			strings.Repeat("long ", 4000),
		}
		// Control characters arrive, and are not printed.
		shown := strings.NewReplacer("\a", "").Replace
		for i, arg := range all {
			w.ok(t, "task", "create", fmt.Sprint(i), "Title: "+arg+" :end")
			res := w.ralph(t, "task", "show", arg).expect(t, 2)
			assert.Equal(t, res.stderr, "Error: task '"+shown(arg)+"' not found\n")
		}
		list := w.ok(t, "task", "list", "--markdown")
		for i, arg := range all {
			assert.Check(t, is.Contains(list, fmt.Sprintf("id: %d\ntitle: Title: %s :end\n", i, shown(arg))))
		}
		assert.Equal(t, w.ok(t, append([]string{"shell", "--", "printf", `%s\n`}, all...)...), strings.Join(all, "\n")+"\n")
		// Empty ones count.
		res := w.ralph(t, "task", "create", "", "title").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: missing task ID"))
		res = w.ralph(t, "task", "create", "id", "").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: missing task title"))
		res = w.ralph(t, "task", "create", "id", "title", "").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: unknown flag ''"))
	})
}

// A command's stdout and stderr are passed through, and nothing is added.
func TestOutputAndExitCodeArePassedThrough(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.createSandbox(t)
		w.ok(t, "task", "create", "a", "Title")
		for _, tc := range []struct {
			args []string
			want result
		}{
			{[]string{"task", "plan-status"}, result{0, "1 open, 0 active, 0 done, 0 blocked, 0 deleted\n", ""}},
			{[]string{"task", "show", "nothing"}, result{2, "", "Error: task 'nothing' not found\n"}},
			{[]string{"task", "done", "a"}, result{1, "", "Error: task 'a' is not active (status: open)\n"}},
			{[]string{"task", "claim", "nothing"}, result{2, "", "Task not eligible\n"}},
			{[]string{"task", "nonsense"}, result{1, "", "Error: unknown command 'nonsense'\n"}},
		} {
			assert.Equal(t, w.ralph(t, tc.args...), tc.want, "%q", tc.args)
		}
	})
}

func TestLargeInputAndOutput(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		var tasks []task
		for i := range 3000 {
			tasks = append(tasks, task{ID: fmt.Sprintf("t/%04d", i), Title: strings.Repeat("x", 60)})
		}
		w.plan(t, tasks...)
		list := w.ok(t, "task", "list")
		assert.Equal(t, strings.Count(list, "\n"), len(tasks)+1)
		for _, tk := range tasks {
			if !strings.Contains(list, tk.ID) {
				t.Fatalf("%s is missing", tk.ID)
			}
		}

		// So are streams of the sandbox.
		w.createSandbox(t)
		copied := w.docker("ralph", "shell", "--", "cat")
		copied.Stdin = strings.NewReader(list)
		assert.Equal(t, run(t, copied).expect(t, 0).stdout, list)

		// The command ends when its reader closes the pipe; the next command works.
		for command, first := range map[string]string{
			"task list":          "ID                   P S        CAT   TITLE                               AGENT\n",
			"shell -- seq 90000": "1\n",
		} {
			res := run(t, w.command("sh", "-c", "docker ralph "+command+" | head -n 1")).expect(t, 0)
			assert.Equal(t, res.stdout, first)
		}
		w.ok(t, "task", "show", "t/0000")
		assert.Equal(t, w.ok(t, "shell", "--", "echo", "a"), "a\n")
	})
}

func TestCommandsRunInTheWorkingDirectory(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		sub := filepath.Join(w.repo, "some dir", "ünter")
		w.write(t, filepath.Join(sub, "specs", "s.md"), "# Below\n")
		w.chown(t, w.repo)
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "specs")
		in := func(args ...string) result {
			cmd := w.docker(append([]string{"ralph"}, args...)...)
			cmd.Dir = sub
			return run(t, cmd).expect(t, 0)
		}
		in("task", "create", "a", "Look around", "-s", `["pwd > here"]`)
		in("build", "-n", "1")
		here, err := os.ReadFile(filepath.Join(sub, "here"))
		assert.NilError(t, err)
		assert.Equal(t, string(here), sub+"\n")
		assert.Equal(t, len(w.sandboxes(t)), 1, "it is the sandbox of the whole work tree")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done"})
	})
}

// Commands work in pipelines and without open streams.
func TestPipelinesAndMissingStreams(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, "specs", "p.md"), "```ralph-tasks\n{\"id\":\"p/1\",\"t\":\"One\"}\n```\n")
		w.git(t, "add", "specs")
		w.git(t, "commit", "-qm", "specs")
		for _, line := range []string{
			"docker ralph plan | cat",
			"docker ralph plan </dev/null",
			"docker ralph plan <&-",
			"docker ralph plan 2>/dev/null",
			"docker ralph plan 2>&1 | cat",
			"true | docker ralph plan",
			"(sleep 60 & docker ralph plan; kill $!)", // the input stays open
		} {
			res := run(t, w.command("bash", "-o", "pipefail", "-c", line)).expect(t, 0)
			assert.Check(t, is.Contains(res.stdout, "Reached max iterations: 1"), line)
		}
		run(t, w.command("bash", "-c", "docker ralph plan >&-")) // may fail, must end
		assert.DeepEqual(t, w.statuses(t), map[string]string{"p/1": "open"})
	})
}

// complete returns what is offered behind "docker ralph".
func (w *world) complete(t *testing.T, args ...string) []string {
	t.Helper()
	res := run(t, w.docker(append([]string{"__complete", "ralph"}, args...)...)).expect(t, 0)
	offered, directive, found := strings.Cut(res.stdout, ":4\n")
	assert.Assert(t, found && directive == "", res.stdout)
	return strings.Fields(strings.ReplaceAll(strings.ReplaceAll(offered, " ", "_"), "\t", "="))
}

// waitForCompletions waits until exactly this is offered: completion that takes longer than a
// user would wait offers nothing, and the machine may be busy.
func (w *world) waitForCompletions(t *testing.T, want []string, args ...string) {
	t.Helper()
	eventually(t, func() error {
		if offered := w.complete(t, args...); !slices.Equal(offered, want) {
			return fmt.Errorf("%q is offered behind %q, not %q", offered, args, want)
		}
		return nil
	})
}

// The IDs of tasks come from the backlog, without an engine.
func TestCompletionOfTasks(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("DOCKER_HOST", deadHost)
		assert.DeepEqual(t, w.complete(t, "task", "show", ""), []string{})
		w.plan(t, task{ID: "auth/01", Title: "Don't `log` $(id)"}, task{ID: "auth/02", Title: "Log in"}, task{ID: "x$(touch${IFS}pwned)", Title: "Bad"})
		w.ok(t, "task", "claim", "auth/02", "--agent", "me")
		w.waitForCompletions(t, []string{"auth/01=Don’t_·log·_·(id)", "auth/02=Log_in"}, "task", "show", "")
		w.waitForCompletions(t, []string{"auth/02=Log_in"}, "task", "show", "auth/02")
		w.waitForCompletions(t, []string{"auth/01=Don’t_·log·_·(id)"}, "task", "claim", "")
		w.waitForCompletions(t, []string{"auth/02=Log_in"}, "task", "done", "")
		w.waitForCompletions(t, []string{"auth/02=Log_in"}, "task", "block", "auth/01", "--by", "")
		assert.DeepEqual(t, w.complete(t, "--worktree=other", "task", "show", ""), []string{})
		assert.Check(t, !strings.Contains(w.git(t, "worktree", "list"), ".worktrees"), "a worktree was made")
		assert.Equal(t, len(w.sandboxes(t)), 0)
	})
}

// Each worktree has its own tasks.
func TestCompletionOfTasksOfAWorktree(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "here", "Here")
		w.ok(t, "--worktree=other", "task", "create", "there", "There")
		w.waitForCompletions(t, []string{"here=Here"}, "task", "show", "")
		w.waitForCompletions(t, []string{"there=There"}, "--worktree=other", "task", "show", "")
		assert.DeepEqual(t, w.complete(t, "--worktree", "task", "show", ""), []string{})
	})
}

func TestCompletionOfSandboxes(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		name := w.sandbox(t).Name
		for _, command := range []string{"stop", "clean"} {
			w.waitForCompletions(t, []string{name}, command, "")
			assert.DeepEqual(t, w.complete(t, command, name, ""), []string{})
		}
	})
}

// TestScripts are the command lines that no engine is needed for: DOCKER_HOST
// leads nowhere.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup:               setUpScript,
		Condition: func(name string) (bool, error) {
			if name != "plugin-completion" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return shared.client >= forwardsSignals, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": expectExit,
			"repo":  makeRepo,
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

// makeRepo makes the current directory a worktree on branch main with one
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
