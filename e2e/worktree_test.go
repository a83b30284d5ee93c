//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// Worktrees: created, listed and removed with their sandboxes.

// inWorktree is the world in a worktree below .worktrees.
func (w *world) inWorktree(name string) *world {
	other := *w
	other.env = slices.Clone(w.env)
	other.repo = filepath.Join(w.repo, ".worktrees", name)
	return &other
}

// worktreeStatus is a row of "worktree ls".
type worktreeStatus struct {
	Branch, Sandbox, State, Against string
	Ahead, Behind, Changes          *int
	Main, Current                   bool
}

// worktreeStatuses returns what "worktree ls" lists, by path.
func (w *world) worktreeStatuses(t *testing.T) map[string]worktreeStatus {
	t.Helper()
	var list []struct {
		Path string
		worktreeStatus
	}
	assert.NilError(t, json.Unmarshal([]byte(w.ok(t, "worktree", "ls", "--format", "json")), &list))
	found := map[string]worktreeStatus{}
	for _, s := range list {
		found[s.Path] = s.worktreeStatus
	}
	return found
}

// A worktree is created, built in, listed, kept while it has unmerged commits, and
// removed with its sandbox.
func TestWorktreeLifecycle(t *testing.T) {
	andRemote(t, withClone, func(t *testing.T, w *world) {
		x := w.inWorktree("x")
		assert.Equal(t, w.ok(t, "worktree", "add", "x", "--branch-name", "feature/x"), x.repo+"\n")
		x.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ralph(t, "--worktree=x", "build").expect(t, 0)
		assert.Equal(t, x.read(t, "a.txt"), "a\n")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "feature/x"), "Add a")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		name := w.sandbox(t).Name
		for _, target := range [][]string{{"--worktree=x", "logs"}, {"logs", name}} {
			assert.Check(t, is.Contains(w.ok(t, target...), "All tasks complete"))
		}
		for _, target := range [][]string{{"--worktree=x", "attach"}, {"attach", name}} {
			assert.Check(t, is.Contains(w.ralph(t, target...).expect(t, 1).stderr, "no background loop in sandbox "+name))
		}
		for wrong, args := range map[string][]string{
			`no worktree "y"`: {"--worktree=y", "logs"}, `no sandbox "y"`: {"logs", "y"}, "not both": {"--worktree=x", "attach", name},
			`invalid argument "y"`: {"logs", name, "y"},
		} {
			assert.Check(t, is.Contains(w.ralph(t, args...).expect(t, 1).stderr, wrong))
		}

		x.write(t, filepath.Join(x.repo, "half.txt"), "")
		got := x.worktreeStatuses(t)
		assert.Equal(t, len(got), 2)
		s := got[x.repo]
		assert.Equal(t, s.Branch+" "+s.Sandbox+" "+s.State+" "+s.Against, "feature/x "+name+" running main")
		assert.Equal(t, *s.Ahead, 1)
		assert.Equal(t, *s.Behind, 0)
		assert.Equal(t, *s.Changes, 1)
		assert.Assert(t, s.Current && !s.Main)
		assert.Assert(t, got[w.repo].Main && !got[w.repo].Current)
		assert.Equal(t, got[w.repo].State, "not found")

		res := w.ralph(t, "worktree", "rm", "x").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "uncommitted changes in 1 file: half.txt"))
		assert.Check(t, is.Contains(res.stderr, "1 commit not merged: "))
		assert.Check(t, is.Contains(res.stderr, `"Add a"; they stay on branch feature/x`))
		assert.Equal(t, w.sandbox(t).Name, name)
		assert.NilError(t, os.Remove(filepath.Join(x.repo, "half.txt")))
		w.git(t, "merge", "-q", "feature/x")
		res = w.ralph(t, "worktree", "rm", "x").expect(t, 0)
		assert.Equal(t, res.stdout, "x\n")
		assert.Check(t, is.Contains(res.stderr, "Removed sandbox "+name))
		assert.Equal(t, len(w.containers(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
		assert.Equal(t, w.git(t, "for-each-ref", "refs/ralph"), "")
		assert.Equal(t, w.git(t, "branch", "--format=%(refname:short)"), "feature/x\nmain")
		_, err := os.Lstat(x.repo)
		assert.Assert(t, os.IsNotExist(err))

		// Another one of that name.
		w.ok(t, "worktree", "add", "x")
		x.createSandbox(t)
		w.ok(t, "worktree", "rm", "x", "--delete-branch")
		assert.Equal(t, w.git(t, "branch", "--format=%(refname:short)"), "feature/x\nmain")
	})
}

// A worktree whose removal is refused keeps its sandbox, which has the commits of finished tasks.
func TestRefusedRemovalReopensNoTask(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		x := w.inWorktree("x")
		w.ok(t, "worktree", "add", "x")
		x.plan(
			t,
			task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}},
			task{ID: "b", Title: "Add b", Priority: 3, Steps: []string{"touch /tmp/waiting; until [ -e /tmp/go ]; do sleep 0.1; done; echo b > b.txt"}},
		)
		x.killed(t, "build")
		x.git(t, "commit", "-q", "--allow-empty", "-m", "Diverge")
		x.inside(t, "touch", "/tmp/go").expect(t, 0)
		x.ralph(t, "attach") // the loop may have ended before
		x.waitForIdle(t)
		res := w.ralph(t, "worktree", "rm", "x").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "commits of the sandbox that are on no branch"))
		assert.DeepEqual(t, x.statuses(t), map[string]string{"a": "done", "b": "done"})

		// Without the sandbox, what the branch lacks is to be done again.
		res = x.ralph(t, "--recreate", "shell", "--", "true").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Reopened 1 task, whose commits are not on your branch x: b\n"))
	})
}

// Three worktrees and the main one are at work at once, and each commits to its
// own branch, also when one of them is stopped.
func TestWorktreesBuildInParallel(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		trees := []*world{w, w.inWorktree("one"), w.inWorktree("two"), w.inWorktree("three")}
		w.ok(t, "worktree", "add", "one")
		trees[1].ok(t, "worktree", "add", "two") // from inside the other
		w.ok(t, "worktree", "add", "three")
		for _, tree := range trees {
			name := filepath.Base(tree.repo)
			tree.plan(t, task{ID: name, Title: "Add " + name, Steps: []string{
				"echo x > " + name + ".txt; touch .ralph/begun; while ! test -e .ralph/go; do sleep 0.1; done; ! ls .worktrees/*",
			}})
		}
		var builds []*process
		for _, tree := range trees {
			builds = append(builds, start(t, tree.docker("ralph", "build")))
		}
		for _, tree := range trees {
			waitForFile(t, tree.pathInside(t, ".ralph/begun"))
		}
		res := w.ralph(t, "worktree", "rm", "two").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `"ralph build" is running in sandbox ralph-`))
		assert.Equal(t, len(w.containers(t)), 4)
		run(t, w.docker("stop", w.worktreeStatuses(t)[trees[3].repo].Sandbox)).expect(t, 0)
		assert.Assert(t, builds[3].wait(t).code != 0)
		for i, tree := range trees[:3] {
			tree.write(t, tree.pathInside(t, ".ralph/go"), "")
			builds[i].wait(t).expect(t, 0)
			assert.Equal(t, tree.git(t, "log", "-1", "--format=%s"), "Add "+filepath.Base(tree.repo))
			assert.Equal(t, tree.git(t, "status", "--porcelain"), "")
		}
		assert.Equal(t, w.git(t, "log", "--format=%s", "main..one"), "Add one")
		assert.Equal(t, w.git(t, "log", "--format=%s", "main..two"), "Add two")
		assert.Equal(t, w.git(t, "log", "--format=%s", "main..three"), "")
		assert.Equal(t, w.worktreeStatuses(t)[trees[3].repo].State, "stopped")
	})
}

// Commits that a killed build has left in the sandbox are fetched before it is
// removed, also by force.
func TestRemovingAWorktreeFetchesCommits(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.useDefaults() // with a proxy
		x := w.inWorktree("x")
		w.ok(t, "worktree", "add", "x")
		x.plan(t, task{ID: "a", Title: "Commit and hang", Steps: []string{
			"echo a > a.txt; git add a.txt; git commit -qm 'Only inside'; touch .ralph/committed; sleep 1000",
		}})
		build := start(t, x.docker("ralph", "build", "-n", "1"))
		waitForFile(t, x.pathInside(t, ".ralph/committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		res := w.ralph(t, "worktree", "rm", "x").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `"ralph build -n 1" is running in sandbox `))

		name := w.sandbox(t).Name
		run(t, w.docker("stop", "-t", "0", name)).expect(t, 0)
		res = w.ralph(t, "worktree", "rm", "x").expect(t, 1)
		kept := "refs/ralph/" + name + "/x"
		assert.Check(t, is.Contains(res.stderr, "commits of the sandbox that are on no branch: they stay at "+kept+"\n"))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", kept), "Only inside")

		w.ralph(t, "worktree", "rm", "--force", "x").expect(t, 0)
		assert.Equal(t, len(w.containers(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", kept), "Only inside")
	})
}

// --force removes a worktree while an agent works in it; its commits and its branch
// stay.
func TestRemovingAWorktreeByForce(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		x := w.inWorktree("x")
		w.ok(t, "worktree", "add", "x")
		x.plan(t, task{ID: "a", Title: "Commit and hang", Steps: []string{
			"echo a > a.txt; git add a.txt; git commit -qm 'Only inside'; touch .ralph/committed; sleep 1000",
		}})
		build := start(t, x.docker("ralph", "build", "-n", "1"))
		waitForFile(t, x.pathInside(t, ".ralph/committed"))
		kept := x.sandboxRef(t, "x")
		w.ralph(t, "worktree", "rm", "--force", "x").expect(t, 0)
		assert.Assert(t, build.wait(t).code != 0)
		assert.Equal(t, len(w.containers(t)), 0)
		_, err := os.Lstat(x.repo)
		assert.Assert(t, os.IsNotExist(err))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", kept), "Only inside")
	})
}

// At a terminal there is a prompt for the branch; its default is the worktree's name.
func TestWorktreeBranchPrompt(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.git(t, "branch", "develop")
		for _, tc := range []struct{ args, answer, question, branch string }{
			{"--worktree=one shell -- true", "\r", "Branch name (press Enter to use 'one'): ", "one"},
			{"--worktree=two shell -- true", "develop\r", "Branch name (press Enter to use 'two'): ", "develop"},
			{"--worktree=three shell -- true", "feature/three\r", "Branch name (press Enter to use 'three'): ", "feature/three"},
			{"worktree add four", "\r", "Branch name (press Enter to use 'four'): ", "four"},
		} {
			sh := w.shell(t, tc.args)
			sh.screen.WaitFor(t, tc.question)
			sh.press(t, tc.answer)
			res := sh.wait(t).expect(t, 0)
			w.assertTerminalRestored(t)
			name := strings.Split(tc.question, "'")[1]
			w.assertScreen(t, res.stdout, "branch-"+name)
			assert.Equal(t, w.inWorktree(name).git(t, "branch", "--show-current"), tc.branch)
		}
		// There is no prompt for an existing worktree, or with --branch-name.
		for _, args := range []string{"--worktree=one shell -- true", "--worktree=five --branch-name five shell -- true"} {
			res := w.shell(t, args).wait(t).expect(t, 0)
			assert.Assert(t, !strings.Contains(res.stdout, "Branch name"), res.stdout)
		}
		sh := w.shell(t, "--worktree shell -- true")
		sh.screen.WaitFor(t, "'): ")
		sh.press(t, "\r")
		res := sh.wait(t).expect(t, 0)
		made := regexp.MustCompile(`Created worktree \.worktrees/([a-z0-9]{8}) on the new branch ([a-z0-9]{8})\r`).FindStringSubmatch(res.stdout)
		assert.Equal(t, len(made), 3, res.stdout)
		assert.Equal(t, made[1], made[2])

		sh = w.shell(t, "--worktree=six shell -- true")
		sh.screen.WaitFor(t, "'): ")
		sh.press(t, "\x03")
		sh.wait(t).expect(t, 130)
		_, err := os.Lstat(w.inWorktree("six").repo)
		assert.Assert(t, os.IsNotExist(err))
	})
}

// A worktree whose private git directory is broken is removed like any other: the git
// directory is restored first.
func TestRemovingAWorktreeWithABrokenGitDirectory(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		x := w.inWorktree("x")
		w.ok(t, "worktree", "add", "x")
		x.plan(t, task{ID: "a", Title: "Break it", Steps: []string{"rm -rf /opt/ralph-git/own/* .gone; true"}})
		x.ralph(t, "build", "-n", "1")
		w.ok(t, "worktree", "rm", "x")
		assert.Equal(t, len(w.containers(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
	})
}

func TestWorktreeInAMicroVM(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		x := w.inWorktree("x")
		w.ralph(t, "--worktree=x", "shell", "--", "true").expect(t, 0)
		x.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		x.ralph(t, "build").expect(t, 0)
		name := w.sandbox(t).Name
		s := w.worktreeStatuses(t)[x.repo]
		assert.Equal(t, s.Sandbox+" "+s.State, name+" "+string(w.stateAfterLoop()))
		res := w.ralph(t, "worktree", "rm", "x").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `"Add a"; they stay on branch x`))
		w.ralph(t, "worktree", "rm", "--force", "--delete-branch", "x").expect(t, 0)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Equal(t, w.git(t, "branch", "--format=%(refname:short)"), "main")
	})
}

// specialNames are directory names with a meaning to a shell, to git or to an engine,
// which must have none here.
func specialNames() []string {
	return []string{`a $(touch pwned) b`, "`touch pwned`", `x;touch pwned;"'`, `-v:rw,z`, `*?[a]{b}~&|<>!#%`, `ünï ⼤`}
}

// A worktree is used by its real path, whatever the name, also through a link.
func TestWorktreesWithSpecialCharacters(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		odd := filepath.Join(append([]string{w.dir}, specialNames()...)...)
		link := filepath.Join(w.dir, "link")
		assert.NilError(t, os.MkdirAll(filepath.Dir(odd), 0o755))
		assert.NilError(t, os.Rename(w.repo, odd))
		assert.NilError(t, os.Symlink(odd, link))
		w.chown(t, w.dir)
		w.repo = link
		w.setenv("PWD", link)
		w.setenv("RALPH_NETWORK", "deny")
		w.setenv("RALPH_WORKSPACE", "clone")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"pwd >a.txt"}})
		w.ok(t, "build")
		assert.Equal(t, w.git(t, "show", "HEAD:a.txt"), odd)
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		var targets []string
		for _, m := range w.container(t).Mounts {
			targets = append(targets, m.Destination)
		}
		assert.Check(t, is.Contains(targets, odd))

		w.setenv("RALPH_WORKSPACE", "live")
		assert.Equal(t, w.ok(t, "--recreate", "shell", "--", "pwd"), odd+"\n")
		var sources []string
		for _, m := range w.container(t).Mounts {
			if m.Type == "bind" {
				sources = append(sources, m.Source)
			}
		}
		assert.Check(t, is.Contains(sources, odd))
		for _, source := range sources {
			assert.Check(t, !strings.HasPrefix(source, link), source)
		}
		assert.NilError(t, filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
			assert.Check(t, filepath.Base(path) != "pwned", path)
			return err
		}))
	})
}
