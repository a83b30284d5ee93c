//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// Loops that work through the backlog: plan and build, commits, and exit codes.

// The main job: from three open tasks to three commits.
func TestBuildTurnsThreeTasksIntoCommits(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.useDefaults()
		assert.NilError(t, os.Remove(filepath.Join(w.config, "ralph", "config.toml")))
		flags := []string{"--agent", "shell", "--base", engines.BaseImage()}
		flags = append(flags, w.driverFlags()...)
		for i := range 3 {
			n := fmt.Sprint(i + 1)
			w.ok(t, append(flags, "task", "create", "t/"+n, "Add thing "+n, "-p", n, "-s", `["echo `+n+` > thing`+n+`"]`)...)
		}

		first := w.ralph(t, append(flags, "build", "-n", "3")...).expect(t, 0)

		assert.Equal(t, w.git(t, "log", "--reverse", "--format=%s|%an|%ae", "HEAD~3.."),
			"Add thing 1|Una User|una@example.com\nAdd thing 2|Una User|una@example.com\nAdd thing 3|Una User|una@example.com")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		list := w.ok(t, append(flags, "task", "list", "--markdown")...)
		assert.Equal(t, strings.Count(list, "status: done"), 3, list)
		w.assertOwnership(t)
		assert.Check(t, is.Contains(first.stdout, "All tasks complete. Exiting loop."))

		before := w.sandbox(t)
		assert.Equal(t, before.Name, "ralph-"+strings.Replace(w.slug, "/", "-", 1)+"-main")
		second := w.ralph(t, append(flags, "build")...).expect(t, 0)
		assert.Check(t, is.Contains(second.stdout, "All tasks complete. Exiting loop."))
		assert.Check(t, !strings.Contains(second.stdout, "━━ Done"), "an agent ran:\n%s", second.stdout)
		assert.Equal(t, w.git(t, "rev-list", "--count", "HEAD"), "4")
		assert.Equal(t, w.sandbox(t).ID, before.ID)
	})
}

// One repository has one backlog, however the URL of its origin is written, and whatever the agent's git says.
func TestSpellingsOfTheOriginShareTheBacklog(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		both := map[string]string{"/": "open", ".git": "open"}
		for end := range both {
			w.git(t, "remote", "set-url", "origin", "https://git.example/"+w.slug+end)
			w.ok(t, "task", "create", end, "Add it")
		}
		assert.DeepEqual(t, w.statuses(t), both)
		inside := w.ok(t, "shell", "--", "sh", "-c", "git remote set-url origin https://git.example/other/one; ralph task plan-status")
		assert.Equal(t, inside, "2 open, 0 active, 0 done, 0 blocked, 0 deleted\n")
	})
}

// An origin that is a folder of the machine is not in the sandbox's git directory,
// and the loop knows all the same which repository it works on.
func TestOriginOnThisMachine(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_WORKSPACE", "clone")
		origin := filepath.Join(w.dir, "origin.git")
		w.git(t, "init", "-q", "--bare", origin)
		w.git(t, "remote", "set-url", "origin", origin)
		w.ok(t, "task", "create", "a", "Add a", "-s", `["echo a > a"]`)
		w.createSandbox(t)
		w.slug = strings.TrimSpace(w.ok(t, "ls", "--format", "{{.Repo}}"))
		w.ok(t, "build", "-n", "1")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
		assert.Check(t, is.Contains(w.ok(t, "task", "list", "--markdown"), "status: done"))
	})
}

// A repository is removed, and cloned again to the same directory.
func TestRecreatedWorktreeDirectory(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		for _, workspace := range []string{"clone", "live"} {
			w.setenv("RALPH_WORKSPACE", workspace)
			w.ok(t, "task", "create", workspace, "Add "+workspace, "-s", `["echo a > `+workspace+`"]`)
			w.ok(t, "--recreate", "build", "-n", "1")
			origin, head := w.git(t, "remote", "get-url", "origin"), w.git(t, "rev-parse", "HEAD")

			aside := w.repo + "-" + workspace
			assert.NilError(t, os.Rename(w.repo, aside))
			clone := w.command("git", "clone", "-q", aside, w.repo)
			clone.Dir = aside
			run(t, clone).expect(t, 0)
			w.git(t, "remote", "set-url", "origin", origin)
			w.git(t, "config", "user.name", "Una User")
			w.git(t, "config", "user.email", "una@example.com")
			w.ok(t, "task", "create", workspace+"-again", "Again", "-s", `["echo b > `+workspace+`-again"]`)
			assert.NilError(t, os.MkdirAll(filepath.Join(w.repo, "specs"), 0o755))
			w.write(t, filepath.Join(w.repo, "specs", "a.md"), "A\n")
			w.chown(t, w.repo)
			w.ok(t, "build", "-n", "1")
			assert.Equal(t, w.git(t, "log", "--format=%s", head+".."), "Again")
			assert.Equal(t, w.read(t, workspace+"-again"), "b\n")
		}
	})
}

// assertOwnership asserts that all files of the worktree belong to the user, and that
// no other user can write them.
func (w *world) assertOwnership(t *testing.T) {
	t.Helper()
	assert.NilError(t, filepath.WalkDir(w.repo, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != w.uid || int(st.Gid) != w.gid) {
			return fmt.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		if info.Mode().Type() != os.ModeSymlink && info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%s has the mode %s", path, info.Mode())
		}
		return nil
	}))
}

func TestPlanCreatesTasksFromSpecs(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.useDefaults()
		w.write(t, filepath.Join(w.repo, "specs", "greeting.md"), "# Greeting\n\n```ralph-tasks\n"+
			`{"id":"greeting/01","t":"Say hello","p":0,"steps":["echo hello > hello"]}`+"\n"+
			`{"id":"greeting/02","t":"Say it twice","p":1,"deps":["greeting/01"],"steps":["cat hello hello > twice"]}`+"\n```\n")
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "spec")

		out := w.ok(t, "plan")

		assert.DeepEqual(t, w.statuses(t), map[string]string{"greeting/01": "open", "greeting/02": "waiting"})
		show := w.ok(t, "task", "show", "greeting/02")
		assert.Check(t, is.Contains(show, "Spec:        greeting.md"))
		assert.Check(t, is.Contains(show, "greeting/01 (open)"))
		assert.Check(t, is.Contains(out, "inserted: 2, updated: 0"))
		assert.Equal(t, w.git(t, "rev-list", "--count", "HEAD"), "2", "planning implements nothing")
	})
}

// A dry run of plan shows the tasks of the agent and leaves the backlog as it is. The specs that the agent has committed are
// delivered.
func TestDryRunOfPlanLeavesTheBacklog(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "things/01", "Add things", "-r", "things.md")
		w.ok(t, "task", "create", "things/02", "Add more", "-r", "things.md")
		before := w.ok(t, "task", "export")
		res := w.ralph(t, "--dry-run", "plan").expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "Command:     ralph plan\n"))
		assert.Check(t, is.Contains(res.stderr, "Hint: to see the plan itself, run \"docker ralph plan --dry-run\"\n"))
		assert.Equal(t, len(w.sandboxes(t)), 0)

		w.write(t, filepath.Join(w.repo, "specs", "things.md"), "# Things\n\n```ralph-tasks\n"+
			`{"id":"things/01","t":"Add all things","steps":["true"]}`+"\n"+`{"id":"things/03","t":"Add the rest","deps":["things/01"]}`+"\n```\n")
		w.git(t, "commit", "-qam", "spec")
		out := w.ok(t, "plan", "--dry-run")
		assert.Check(t, is.Contains(out, `
CHANGE  TASK       TITLE
change  things/01  Add all things
close   things/02  Add more
add     things/03  Add the rest
`))
		assert.Check(t, is.Contains(out, "Total: 1 run, 1 task to add, 1 to change, 1 to close, 0 commits | "))
		assert.Check(t, is.Contains(out, "Dry run: the backlog was not changed.\n"))
		assert.Equal(t, w.ok(t, "task", "export"), before)

		w.configure(t, "[agent]\nname = \"mine\"\n[agents.mine]\ncommand = [\"sh\", \"{prompt_file}\"]\n")
		w.write(t, filepath.Join(w.repo, ".ralph", "prompts", "plan.md"), `set -e
ralph task create more/01 "Add it" -r more.md
echo '{"id":"things/01","t":"Add things","spec":"things.md"}' | ralph task plan-sync
echo "# More" >specs/more.md; git add specs; git commit -q --allow-empty -m "Specify more"
`)
		flags := []string{"--agent", "mine", "--image", engines.BaseImage(), "--recreate"}
		out = w.ok(t, append(flags, "plan", "--dry-run", "--format", "json")...)
		assert.Check(t, is.Contains(out, `"tasks":[{"change":"add","id":"more/01","title":"Add it"},{"change":"close","id":"things/02","title":"Add more"}]`))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Specify more")
		assert.Equal(t, w.ok(t, "task", "export"), before)

		assert.Check(t, is.Contains(w.ok(t, append(flags, "plan")...), "Total: 1 run, 1 task added, 1 closed, 1 commit | "))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"things/01": "open", "more/01": "open"})
	})
}

func TestFailedTaskIsReleasedWithAReason(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "bad", Title: "Cannot work", Steps: []string{"echo oops >&2; exit 3"}})
		res := w.ralph(t, "build", "-n", "1").expect(t, 6)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"bad": "open"})
		assert.Check(t, is.Contains(w.ok(t, "task", "show", "bad"), "Fail reason: step 1 failed (exit code 3)"))
		assert.Check(t, is.Contains(res.stdout, "Reached max iterations: 1"))
	})
}

// Root works in root's repository as root, and in another user's as that
// user, so that "sudo docker ralph" leaves no file of root's behind.
func TestRootCreatesFilesOfTheRepositoryOwner(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		for _, tc := range []struct {
			name     string
			uid, gid int
		}{{"own", 0, 0}, {"another user's", userUID, userGID}} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				w := newRootWorld(t, e)
				w.uid, w.gid = tc.uid, tc.gid
				w.chown(t, w.repo)
				root := *w
				root.uid, root.gid = 0, 0
				root.setenv("SUDO_UID", fmt.Sprint(tc.uid)) // as sudo does; git asks for it
				root.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"mkdir d && echo a > d/a"}})
				root.ok(t, "build")
				assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
				w.assertOwnership(t)
			})
		}
	})
}

// Tasks that the user created are built without specs, also from a subdirectory.
func TestBuildWithoutSpecs(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, "sub", "file"), "x\n")
		w.chown(t, w.repo)
		w.git(t, "rm", "-rq", "specs")
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "no specs")
		below := w.inDirectory(filepath.Join(w.repo, "sub"))
		res := below.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: nothing to build: no tasks, and no specs in ./specs\nHint: create a task with \"docker ralph task create ID TITLE\"\nHint: write specs in ./specs and commit them\n"))
		assert.Equal(t, len(w.sandboxes(t)), 0, "nothing was created for it")
		below.ok(t, "task", "create", "a", "Add a", "-s", `["echo a >a.txt"]`)
		below.ok(t, "build", "-n", "1")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
		assert.Equal(t, len(w.sandboxes(t)), 1)
	})
}

// The exit code of a loop reflects whether its tasks are done, with and without -n.
func TestLoopExitCodes(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		bad := func(id string) task { return task{ID: id, Title: "Fail", Priority: 1, Steps: []string{"exit 3"}} }
		good := func(id string) task { return task{ID: id, Title: "Work", Priority: 2, Steps: []string{"true"}} }
		for _, tc := range []struct {
			name, command string
			tasks         []task
			code          int
			said          string
		}{
			{"the only run failed", "build -n 1", []task{bad("b1")}, 6, "the agent shell failed"},
			{"all runs failed", "build -n 2", []task{bad("b2")}, 6, "the agent shell failed"},
			{"a run before the last failed", "build -n 2", []task{bad("b3"), good("g3")}, 10, "unfinished tasks: b3"},
			{"all is done", "build -n 1", []task{good("g4")}, 0, "Iteration 1: done g4"},
			{"nothing is left", "build", nil, 0, "the backlog has no tasks"},
			{"the only plan failed", "plan", nil, 6, "the agent shell failed"},
		} {
			if tc.tasks != nil {
				w.plan(t, tc.tasks...)
			}
			if strings.HasPrefix(tc.command, "plan") {
				w.write(t, filepath.Join(w.repo, "specs", "bad.md"), "```ralph-tasks\nhello\n```\n")
			}
			res := w.ralph(t, strings.Fields(tc.command)...)
			assert.Check(t, is.Equal(res.code, tc.code), "%s:\n%s\n%s", tc.name, res.stdout, res.stderr)
			assert.Check(t, is.Contains(res.stdout+res.stderr, tc.said), tc.name)
			w.ok(t, "task", "delete", "--all", "--confirm")
		}

		// A check that cannot run is none that has passed.
		assert.NilError(t, os.Remove(filepath.Join(w.repo, "specs", "bad.md")))
		w.configure(t, "[checks]\ncommands = [\"./no-such-check\"]\n")
		w.plan(t, good("g5"))
		res := w.ralph(t, "build", "-n", "1")
		assert.Check(t, is.Equal(res.code, 10), "%s\n%s", res.stdout, res.stderr)
		assert.Check(t, is.Contains(res.stdout, "reopened g5"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"g5": "open"})
	})
}

// A running loop keeps the checks that it was started with, whatever the agent writes, and the next command
// asks first.
func TestAgentCannotChangeTheChecksOfItsLoop(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.configure(t, "[checks]\ncommands = [\"test -e good\"]\n")
		w.plan(t,
			task{ID: "a", Title: "Drop the checks", Steps: []string{
				"echo '# none' >ralph.toml; touch good; git add -A; git commit -qm a",
			}},
			task{ID: "b", Title: "Fail the checks", Steps: []string{"git rm -q good; git commit -qm b"}},
		)
		res := w.ralph(t, "build", "-n", "2")
		assert.Check(t, is.Equal(res.code, 10), "%s\n%s", res.stdout, res.stderr)
		assert.Check(t, is.Contains(res.stdout, "reopened b"))
		assert.Check(t, is.Contains(res.stderr, "Warning: ralph.toml has changed"))
		assert.Check(t, is.Contains(w.ralph(t, "build").expect(t, 1).stderr, "checks.commands is not set any more"))
		w.ok(t, "trust", "--force")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "open"})
	})
}

// verboseClaude is a claude whose last message has 5 MB.
const verboseClaude = `#!/bin/sh
ralph task claim a >/dev/null
touch a && git add a && git commit -qm "Add a"
ralph task done a --result "{\"commit\":\"$(git rev-parse HEAD)\"}" >/dev/null
printf '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"'
head -c 5000000 /dev/zero | tr '\0' x
printf '","total_cost_usd":0.5}\n'
`

// The cost in a very long last message counts towards the limit.
func TestCostOfALongLastMessageIsCounted(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		flags := []string{"--agent", "claude", "--image", w.imageWith(t, "/usr/local/bin/claude", verboseClaude)}
		for _, id := range []string{"a", "b"} {
			w.ok(t, append(flags, "task", "create", id, "Add "+id)...)
		}
		res := w.ralph(t, append(flags, "build", "--max-cost-usd", "0.25")...).expect(t, 4)
		assert.Check(t, is.Contains(res.stdout, "Iteration 1: done a"))
		assert.Check(t, is.Contains(res.stdout, "$0.5"))
		assert.Check(t, is.Contains(res.stderr, "cost limit reached: $0.50 of $0.25"))
		assert.Check(t, !strings.Contains(res.stdout, "Iteration 2"))
	})
}

// A run whose task another agent has claimed meanwhile does not count. Its commits
// are kept as an attempt, and the other agent's claim stays.
func TestOvertakenRunDoesNotCount(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_WORKSPACE", "clone")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{
			"echo a >a.txt; git add a.txt; git commit -qm 'Of the first'; touch .ralph/begun; while ! test -e .ralph/go; do sleep 0.05; done",
		}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		waitForFile(t, w.pathInside(t, ".ralph/begun"))
		w.ok(t, "task", "update", "a", "--status", "open")
		w.ok(t, "task", "claim", "a", "--agent", "beef")
		w.write(t, w.pathInside(t, ".ralph/go"), "")
		res := build.wait(t)
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: another agent has claimed a"))
		assert.Check(t, is.Contains(res.stdout, "Iteration 1: overtaken a"))
		assert.Check(t, is.Contains(res.stdout, "Total: 1 run, 0 tasks done, 1 left, 0 commits"))
		shown, attempt := w.ok(t, "task", "show", "a"), "refs/ralph/"+w.sandbox(t).Name+"/attempts/a/1"
		assert.Check(t, w.git(t, "log", "-1", "--format=%s") != "Of the first")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", attempt), "Of the first")
		assert.Check(t, is.Contains(shown, attempt))
		assert.Check(t, is.Contains(shown, "active"))
		assert.Check(t, is.Contains(shown, "beef"))
	})
}
