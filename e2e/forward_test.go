//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestArgumentsArriveVerbatim(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
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
		for _, arg := range all {
			assert.Equal(t, w.ok(t, "task", "create", arg, "Title: "+arg+" :end"), shown(arg)+"\n")
		}
		list := w.ok(t, "task", "list", "--markdown")
		for _, arg := range all {
			assert.Check(t, is.Contains(list, "\nid: "+shown(arg)+"\ntitle: Title: "+shown(arg)+" :end\n"))
		}
		w.ok(t, "task", "update", all[3], "--priority", "1") // found by its exact name
		show := w.ok(t, "task", "show", all[2])
		assert.Check(t, is.Contains(show, "ID:          "+all[2]+"\n"))
		// Empty ones count.
		res := w.ralph(t, "task", "create", "", "title").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: missing task ID"))
		res = w.ralph(t, "task", "create", "id", "").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: missing task title"))
		res = w.ralph(t, "task", "create", "id", "title", "").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: unknown flag ''"))
	})
}

// What a command writes comes out where it belongs, and nothing else.
func TestOutputErrorsAndExitCodesAreTheCommands(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
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
			{[]string{"plan", "-n", "0"}, result{1, "", "Error: plan mode requires at least 1 iteration (-n 0 is not allowed)\n"}},
			{[]string{"build", "-n", "x"}, result{1, "", "Error: --max-iterations requires a number\n"}},
		} {
			assert.Equal(t, w.ralph(t, tc.args...), tc.want, "%q", tc.args)
		}
	})
}

func TestLargeInputAndOutputArriveWhole(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
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

		// A reader that has seen enough ends it all; the next command works.
		res := run(t, w.command("sh", "-c", "docker ralph task list | head -n 1")).expect(t, 0)
		assert.Equal(t, res.stdout, "ID                   P S        CAT   TITLE                               AGENT\n")
		w.ok(t, "task", "show", "t/0000")
	})
}

func TestTheWorkingFolderIsKept(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		sub := filepath.Join(w.repo, "some dir", "ünter")
		w.write(t, filepath.Join(sub, "specs", "s.md"), "# Below\n")
		w.own(t, w.repo)
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

// Where there is no terminal everything works all the same.
func TestPipelinesAndMissingStreams(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, "specs", "p.md"), "```ralph-tasks\n{\"id\":\"p/1\",\"t\":\"One\"}\n```\n")
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
