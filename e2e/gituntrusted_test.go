//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// Git directories and repositories that an agent breaks or plants do no harm
// outside the sandbox.

// Hooks, filters and other programs that an agent plants for the user's git are not
// run.
func TestPlantedGitConfigurationIsNotRun(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		side := filepath.Join(w.repo, ".worktrees", "side")
		w.git(t, "worktree", "add", "-q", "-b", "side", side)
		marker := filepath.Join(w.dir, "marker")
		plant := strings.ReplaceAll(`set -x
c=$(git rev-parse --git-dir)
for h in post-checkout post-commit pre-commit post-index-change reference-transaction post-merge; do printf '#!/bin/sh\ntouch MARK\n' > $c/hooks/$h; chmod +x $c/hooks/$h; done
git config core.fsmonitor 'touch MARK; false'
git config filter.x.clean 'touch MARK; cat'
git config core.hooksPath $c/hooks
echo '* filter=x' > .gitattributes
mv .git .gone && exit 90
rmdir .git && exit 91
mkdir -p nested && git init -q --bare nested && git -C nested config core.fsmonitor 'touch MARK; false'
mkdir -p .git/evil && echo evil > .git/commondir; rm -f .git/commondir
git -c core.hooksPath=/dev/null -c core.fsmonitor=false branch 'odd$(touch${IFS}MARK)' || exit 93
git -c core.hooksPath=/dev/null -c core.fsmonitor=false update-ref "refs/heads/odd$(printf '\343\200\200')x" HEAD
`, "MARK", marker)
		w.ignore(t, "plant.log", ".gitattributes")
		w.write(t, filepath.Join(w.repo, "plant.sh"), plant)
		w.git(t, "add", "plant.sh")
		w.git(t, "commit", "-qm", "plant")
		w.plan(t, task{ID: "a", Title: "Plant", Steps: []string{"sh plant.sh > plant.log 2>&1; echo $? >> plant.log"}})
		w.ralph(t, "build", "-n", "1")
		log := w.readFile(t, w.pathInside(t, "plant.log"))
		assert.Assert(t, strings.HasSuffix(log, "\n0\n"), log)

		for _, dir := range []string{w.repo, side} {
			cmd := w.command("git", "status", "--porcelain")
			cmd.Dir = dir
			run(t, cmd).expect(t, 0)
		}
		w.git(t, "diff", "HEAD")
		w.git(t, "log", "-p", "-1")
		w.ok(t, "shell", "--", "true")
		_, err := os.Stat(marker)
		assert.Assert(t, os.IsNotExist(err), "something was run: %s", log)
		assert.Assert(t, !strings.Contains(w.git(t, "config", "--local", "--list"), "fsmonitor"))
	})
}

// An agent can break its own git directory, but not the user's. It is restored within
// the same command.
func TestBrokenGitDirectoryIsRepaired(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ralph(t, "build").expect(t, 0)
		box := w.sandbox(t).Name
		for id, step := range map[string]string{
			"b": "rm -rf .git; true",
			"c": "git commit -q --allow-empty -m kept; echo garbage > .git/HEAD",
		} {
			w.plan(t, task{ID: "break-" + id, Title: "Break it", Steps: []string{step}})
			res := w.ralph(t, "build", "-n", "1")
			assert.Check(t, is.Contains(res.stderr, "Warning: the git directory of sandbox "+box+" is broken: not a git directory; it was restored from your repository"))
			assert.Equal(t, w.git(t, "show", "main:a.txt"), "a")
			if strings.Contains(step, "kept") {
				assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+box+"/main"), "kept")
			}
			w.ok(t, "task", "delete", "break-"+id)
			w.plan(t, task{ID: id, Title: "Add " + id, Steps: []string{"echo " + id + " > " + id + ".txt"}})
			res = w.ralph(t, "build").expect(t, 0)
			assert.Check(t, !strings.Contains(res.stderr, "broken"))
			assert.Equal(t, w.git(t, "show", "main:"+id+".txt"), id)
			assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		}
	})
}

// A sandbox whose git directory was broken between two commands can be recreated and
// removed. Lost commits are reported.
func TestSandboxWithABrokenGitDirectoryCanBeRemoved(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ralph(t, "build").expect(t, 0)
		for _, args := range [][]string{{"--recreate", "shell", "--", "true"}, {"clean", "--force"}} {
			run(t, w.docker("exec", "-u", w.insideUser(), w.sandbox(t).ID, "sh", "-c", "rm -rf /opt/ralph-git/own/*")).expect(t, 0)
			res := w.ralph(t, args...).expect(t, 0)
			assert.Check(t, !strings.Contains(res.stderr, "docker rm"))
			assert.Check(t, strings.Contains(res.stderr, "is broken: not a git directory"), res.stderr)
		}
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
		assert.Equal(t, w.git(t, "show", "main:a.txt"), "a")
	})
}

// A repository that the agent commits over a commit of the user's is reported, and
// neither our hints nor the user's git commands run its programs.
func TestCommittedRepositoryOfTheAgentIsReported(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		marker := filepath.Join(w.dir, "marker")
		plant := "git init -q inner && (cd inner && git config user.name x && git config user.email x@y && git commit -q --allow-empty -m x && git config core.fsmonitor 'touch " + marker + "; false')"
		w.ok(t, "shell", "--", "sh", "-c", plant) // what a run leaves would be left out of its commits
		w.plan(t, task{ID: "a", Title: "Plant", Steps: []string{"git add -A && git commit -q --amend -m rewritten"}})
		before := w.git(t, "rev-parse", "main")
		res := w.ralph(t, "build", "--format", "json", "-n", "1").expect(t, 10)
		assert.Check(t, is.Contains(res.stdout, `"outcome":"refused","reason":"the commits add or change the submodule \"inner\"`))
		assert.Check(t, is.Contains(res.stderr, `Warning: the commits of the run were refused: the commits add or change the submodule "inner"`))
		for _, args := range [][]string{{"status", "--format", "json"}, {"ls", "--format", "json"}} {
			shown := strings.ReplaceAll(w.ok(t, args...), " ", "")
			assert.Check(t, is.Contains(shown, `"exit_code":10`), args)
			assert.Check(t, is.Contains(shown, `"stop":"unfinished"`), args)
		}
		w.ralph(t, "logs", "-f").expect(t, 10)
		assert.Check(t, is.Contains(w.ok(t, "task", "show", "a"), `the commits add or change the submodule "inner"`))
		assert.Equal(t, w.statuses(t)["a"], "open")
		assert.Equal(t, w.git(t, "rev-parse", "main"), before)

		// A shell's commits are fetched, and do not come to the branch either.
		res = w.ralph(t, "shell", "--", "sh", "-c", "test -e inner || { "+plant+"; }; git add -A && git commit -qm shell")
		at := w.sandboxRef(t, "@submodule/main")
		assert.Check(t, is.Contains(res.stderr, `Warning: the sandbox's commits add or change the submodule "inner"`))
		assert.Check(t, is.Contains(res.stderr, "\nHint: do not merge them or check them out"))
		assert.Check(t, !strings.Contains(res.stderr, "git reset"))
		w.git(t, "log", "-p", "--submodule=short", at)
		res = w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: the sandbox's commits add or change the submodule"))
		assert.Check(t, is.Contains(res.stderr, "\nHint: do not merge them or check them out"))
		w.git(t, "status")
		w.git(t, "diff", "HEAD")
		w.git(t, "commit", "-q", "--allow-empty", "-m", "The user's")
		_, err := os.Stat(marker)
		assert.Assert(t, os.IsNotExist(err), "the agent's program was run")

		// It can be mended in the sandbox, which is kept for the refused commits.
		w.ok(t, "shell")
		res = w.ralph(t, "--recreate", "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "whose commits were refused is only in the sandbox: refs/ralph/refused/a/1"))
		w.ok(t, "clean", "--discard-commits", "--force", w.sandbox(t).Name)
		w.git(t, "log", "-p", "--submodule=short", at)
		assert.NilError(t, os.RemoveAll(filepath.Join(w.repo, "inner")))
		w.ok(t, "task", "delete", "a")
		w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{"echo b > b.txt"}})
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "show", "main:b.txt"), "b")
	})
}

// Hooks arrive in the worktree of a clone with the last fetch.
func TestHooksInCommitsOfACloneAreReported(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.git(t, "config", "core.hooksPath", ".hooks")
		w.plan(t, task{ID: "a", Title: "Add a hook", Steps: []string{"mkdir .hooks && echo '#!/bin/sh' >.hooks/pre-push && chmod +x .hooks/pre-push"}})
		res := w.ralph(t, "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: hooks in the worktree have changed: "+filepath.Join(w.repo, ".hooks", "pre-push")+"\n"))
		res = w.ralph(t, "shell", "--", "true").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, "have changed"), res.stderr)
	})
}

// A process that a command has left in the sandbox writes hooks later.
func TestHooksOfALeftProcessAreReported(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.git(t, "config", "core.hooksPath", ".hooks")
		res := w.ralph(t, "shell", "--", "sh", "-c", "(until [ -e go ]; do sleep 0.1; done; mkdir .hooks; touch .hooks/pre-push; touch went) >/dev/null 2>&1 &").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, "have changed"), res.stderr)
		w.write(t, w.pathInside(t, "go"), "")
		waitForFile(t, w.pathInside(t, "went"))
		res = w.ralph(t, "shell", "--", "true").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: hooks in the worktree have changed since the last command: "+filepath.Join(w.repo, ".hooks", "pre-push")+"\n"))
	})
}

// A branch with malformed commits is reported, the others are fetched, and nothing of
// it remains in the user's repository.
func TestUnfetchableBranchIsReported(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Branch off", Steps: []string{
			`tree=$(printf '100644 blob %s\t.git\n' $(git hash-object -w /etc/hostname) | git mktree) && git branch bad $(git commit-tree -m bad -p HEAD $tree)`,
			"git branch fine $(git commit-tree -m fine -p HEAD HEAD^{tree}); echo a > a.txt",
		}})
		before := w.git(t, "rev-parse", "main")
		res := w.ralph(t, "build", "-n", "1").expect(t, 10) // main lacks both
		name := w.sandbox(t).Name
		assert.Check(t, is.Contains(res.stderr, `Warning: "refs/heads/bad" of the sandbox was not fetched: `))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/fine"), "fine")
		assert.Equal(t, w.git(t, "rev-parse", "main"), before)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
		assert.Equal(t, w.git(t, "fsck", "--strict", "--unreachable"), "")
	})
}

// A named pipe where git opens a file is reported, and no command hangs.
func TestNamedPipeInTheWorktreeIsReported(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		pipe := filepath.Join(w.repo, ".gitattributes")
		assert.NilError(t, syscall.Mkfifo(pipe, 0o644))
		w.chown(t, pipe)
		started := time.Now()
		res := w.ralph(t, "worktree", "ls")
		assert.Check(t, is.Contains(res.stdout+res.stderr, "git is blocked by "+pipe+": not a regular file"))
		assert.Check(t, time.Since(started) < timeout/6)
	})
}

// inDirectory is the world with another current directory.
func (w *world) inDirectory(dir string) *world {
	other := *w
	other.repo = dir
	return &other
}

// A repository that an agent creates in a subdirectory determines neither mounts nor
// tokens when the user runs a command there.
func TestRepositoryCreatedByTheAgentIsNotUsed(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_WORKSPACE", "live")
		w.plan(t, task{ID: "a", Title: "Make a repository", Steps: []string{
			"mkdir tool && cd tool && git init -q && git remote add origin https://git.example/" + w.slug + "-other.git && git commit -q --allow-empty -m made",
			"cd tool && echo a >f && git add f && git commit -q -m f && echo b >f && echo '* filter=x' >.git/info/attributes",
			"cd tool && for kind in clean smudge process; do git config filter.x.$kind 'touch " + filepath.Join(w.dir, "ran") + "; false'; done",
		}})
		w.ok(t, "build")
		tool := w.inDirectory(filepath.Join(w.repo, "tool"))
		const unapproved = " is not approved (it is inside repository "
		for _, args := range [][]string{
			{"build"},
			{"task", "list"},
			{"--git-token=read", "shell", "--", "true"},
			{"worktree", "ls"},
			{"worktree", "add", "x"},
			{"--worktree=x", "task", "list"},
			{"status"},
			{"ls"},
		} {
			res := tool.ralph(t, args...).expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, "Error: repository "+tool.repo+unapproved+w.repo+", which does not track it)\n"), "%v", args)
			assert.Check(t, is.Contains(res.stderr, "Hint: review it, then run \"docker ralph trust\"\n"))
		}
		tool.dialogue(t, "shell -- true", "Use it? [y/N]", "n").expect(t, 1)

		tool.ok(t, "trust", "--force")
		t.Cleanup(func() { tool.ralph(t, "clean", "--force") })
		tool.ok(t, "worktree", "add", "x")
		tool.ok(t, "worktree", "ls")
		tool.ok(t, "worktree", "rm", "x")
		_, err := os.Lstat(filepath.Join(w.dir, "ran"))
		assert.ErrorIs(t, err, os.ErrNotExist, "a filter of the agent ran")
	})
}
