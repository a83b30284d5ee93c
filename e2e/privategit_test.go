//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"
)

// privately runs a test in a container with a git directory of its own, on every
// engine.
func privately(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	each(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_GIT", "private")
		test(t, w)
	})
}

// A sandbox for one command that has the only copy of commits outlives it, and the
// next command takes them and removes it.
func TestASandboxForOneCommandStaysWithItsCommits(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox]\nreuse_container = false\n")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{
			"echo a > a && git add a && git commit -qm 'Only a' && git tag good",
			`tree=$(printf '100644 blob %s\t.git\n' $(git hash-object -w a) | git mktree) && git reset -q --soft $(git commit-tree -m bad -p HEAD $tree)`,
		}})
		build := w.ralph(t, "build", "-n", "1")
		assert.Check(t, build.code != 0)
		kept := w.sandbox(t)
		assert.Check(t, is.Contains(build.stderr, "the sandbox's commits are only in the sandbox "+kept.Name+" yet"))
		assert.Check(t, !strings.Contains(w.git(t, "log", "--format=%s"), "Only a"))

		run(t, w.docker("exec", "-u", fmt.Sprintf("%d:%d", w.uid, w.gid), kept.ID, "git", "-C", w.repo, "reset", "-q", "--soft", "good")).expect(t, 0)
		w.ok(t, "task", "list")
		assert.Check(t, is.Contains(w.git(t, "log", "--format=%s"), "Only a"))
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
	})
}

// The agent works on the live files, and its commits come to the user's branch
// without touching what the user has staged.
func TestCommitsOfAPrivateGitDirectory(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, "half.txt"), "what the user has staged\n")
		w.git(t, "add", "half.txt")
		w.write(t, filepath.Join(w.repo, "half.txt"), "what the user has not staged\n")
		before := w.git(t, "rev-parse", "HEAD")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt && git add a.txt && git commit -qm 'Only a'"}})
		res := w.ralph(t, "build").expect(t, 0)
		assert.Assert(t, is.Contains(res.stderr, "1 commit of the sandbox is on your branch main"))
		assert.Equal(t, w.git(t, "log", "--format=%s %an <%ae>", before+".."), "Only a Una User <una@example.com>")
		assert.Equal(t, w.git(t, "diff", "--name-only", before, "HEAD"), "a.txt", "what is staged is the user's")
		assert.Equal(t, w.git(t, "show", ":half.txt"), "what the user has staged")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "AM half.txt")
		assert.Equal(t, w.read(t, "half.txt"), "what the user has not staged\n")
		w.git(t, "add", "half.txt")
		assert.Equal(t, w.git(t, "rev-parse", "refs/ralph/"+w.sandbox(t).Name+"/main"), w.git(t, "rev-parse", "main"))
		info, err := os.Stat(filepath.Join(w.repo, "a.txt"))
		assert.NilError(t, err)
		assert.Equal(t, int(info.Sys().(*syscall.Stat_t).Uid), w.uid)

		// The other way: the user commits, and the agent sees it.
		w.git(t, "commit", "-q", "--allow-empty", "-m", "The user's")
		w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{
			`test -z "$(git status --porcelain)" && git log -1 --format=%s > b.txt`,
		}})
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "show", "HEAD:b.txt"), "The user's")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	})
}

// The user's branch follows after each task, not only when all are through.
func TestCommitsComeOutAfterEachTask(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}},
			task{ID: "b", Title: "Wait", Priority: 1, Steps: []string{"touch begun; while ! test -e go; do sleep 0.1; done"}})
		build := start(t, w.docker("ralph", "build", "-n", "2"))
		appears(t, filepath.Join(w.repo, "begun"))
		// Commits of an agent that still works come after half a minute.
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if last := w.git(t, "log", "-1", "--format=%s"); last != "Add a" {
				return poll.Continue("the last commit is %q", last)
			}
			return poll.Success()
		}, poll.WithTimeout(20*time.Second), poll.WithDelay(200*time.Millisecond))
		w.write(t, filepath.Join(w.repo, "go"), "")
		build.wait(t).expect(t, 0)
	})
}

// Making the sandbox anew saves everything first, and removes the volume.
func TestThePrivateGitDirectoryGoesWithItsSandbox(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Branch off", Steps: []string{"git switch -qc side && echo s > s.txt && git add -A && git commit -qm side && git switch -q main"}})
		res := w.ralph(t, "build").expect(t, 0)
		name := w.sandbox(t).Name
		assert.Assert(t, is.Contains(res.stderr, `The sandbox's branch "side" is at refs/ralph/`+name+`/side`))
		assert.Equal(t, w.git(t, "branch", "--format=%(refname:short)"), "main")

		was := w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/side")
		assert.Equal(t, was, "side")
		first := w.container(t).ID
		w.ok(t, "--recreate", "task", "list")
		assert.Assert(t, w.container(t).ID != first)

		// A sandbox that others have removed leaves its volume.
		w.plan(t, task{ID: "b", Title: "Commit and hang", Steps: []string{"touch begun; git add -A; git commit -qm hanging; touch committed; sleep 1000"}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		appears(t, filepath.Join(w.repo, "committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		run(t, w.docker("rm", "-f", w.container(t).ID)).expect(t, 0)
		w.ralph(t, "task", "list").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "hanging")
	})
}

// A sandbox cannot be started when somebody has removed what holds its network. It
// is made anew, and its commits come out.
func TestASandboxThatLostItsNetwork(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "deny")
		w.plan(t, task{ID: "a", Title: "Commit and hang", Steps: []string{"git commit -q --allow-empty -m hanging; touch committed; sleep 1000"}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		appears(t, filepath.Join(w.repo, "committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		first := w.container(t)
		run(t, w.docker("rm", "-f", first.Config.Labels[labelPrefix+"network"])).expect(t, 0)

		res := w.ralph(t, "task", "list").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `"docker ralph stop --now `+strings.TrimPrefix(first.Name, "/")+`"`))
		w.ok(t, "stop", "--now")
		w.ok(t, "task", "list")
		assert.Check(t, w.container(t).ID != first.ID)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "hanging")

		// Nothing runs in this one.
		run(t, w.docker("rm", "-f", w.container(t).Config.Labels[labelPrefix+"network"])).expect(t, 0)
		res = w.ralph(t, "task", "list").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "run the command again"))
		w.ok(t, "task", "list")
	})
}

// Whoever is killed, the next command brings the commits.
func TestAKilledDispatchWithAPrivateGitDirectory(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Commit and wait", Steps: []string{"echo a > a.txt; git add a.txt; git commit -qm a; touch committed; while ! test -e go; do sleep 0.1; done"}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		appears(t, filepath.Join(w.repo, "committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "first")
		w.ralph(t, "task", "list").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "a")

		// The loop that was left behind goes on, and so do its commits.
		w.write(t, filepath.Join(w.repo, "go"), "")
		name := w.sandbox(t).Name
		eventually(t, func() error {
			w.ralph(t, "task", "list").expect(t, 0)
			if st := w.statuses(t); st["a"] != "done" {
				return errors.New("the task is " + st["a"] + " in " + name)
			}
			return nil
		})
	})
}

// What an agent plants for the user's git is not run, wherever it puts it.
func TestWhatAnAgentPlantsIsNotRun(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
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
echo "gitdir: $PWD/evil" > .worktrees/side/.git
mv .worktrees .other && exit 92
mkdir -p nested && git init -q --bare nested && git -C nested config core.fsmonitor 'touch MARK; false'
mkdir -p .git/evil && echo evil > .git/commondir; rm -f .git/commondir
touch .git/objects/x && ls -d /opt/ralph-git/host && ! touch /opt/ralph-git/host$PWD/.git/objects/x
git -c core.hooksPath=/dev/null -c core.fsmonitor=false branch 'odd$(touch${IFS}MARK)' || exit 93
git -c core.hooksPath=/dev/null -c core.fsmonitor=false update-ref "refs/heads/odd$(printf '\343\200\200')x" HEAD
`, "MARK", marker)
		w.write(t, filepath.Join(w.repo, "plant.sh"), plant)
		w.git(t, "add", "plant.sh")
		w.git(t, "commit", "-qm", "plant")
		w.plan(t, task{ID: "a", Title: "Plant", Steps: []string{"sh plant.sh > plant.log 2>&1; echo $? >> plant.log"}})
		w.ralph(t, "build", "-n", "1")
		log := w.read(t, "plant.log")
		assert.Assert(t, strings.HasSuffix(log, "\n0\n"), log)

		for _, dir := range []string{w.repo, side} {
			cmd := w.command("git", "status", "--porcelain")
			cmd.Dir = dir
			run(t, cmd).expect(t, 0)
		}
		w.git(t, "diff", "HEAD")
		w.git(t, "log", "-p", "-1")
		w.ok(t, "task", "list")
		_, err := os.Stat(marker)
		assert.Assert(t, os.IsNotExist(err), "something was run: %s", log)
		assert.Assert(t, !strings.Contains(w.git(t, "config", "--local", "--list"), "fsmonitor"))
	})
}

func TestAPrivateGitDirectoryForALinkedWorkTree(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		main := w.git(t, "rev-parse", "main")
		linked := filepath.Join(w.dir, "linked")
		w.git(t, "worktree", "add", "-q", "-b", "side", linked)
		w.repo = linked
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "side"), "Add a")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		assert.Equal(t, w.git(t, "rev-parse", "main"), main)
	})
}

// When both sides have moved, both stay, and the user is told what to do, which
// works.
func TestAConflictWithAPrivateGitDirectory(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt; touch begun; while ! test -e .ralph/go; do sleep 0.1; done"}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		appears(t, filepath.Join(w.repo, "begun"))
		w.write(t, filepath.Join(w.repo, "user.txt"), "u\n")
		w.git(t, "add", "user.txt")
		w.git(t, "commit", "-qm", "The user's")
		mine := w.git(t, "rev-parse", "main")
		w.write(t, filepath.Join(w.repo, ".ralph", "go"), "")
		res := build.wait(t).expect(t, 0)
		merged := "refs/ralph/" + w.sandbox(t).Name + "/@merged"
		assert.Assert(t, is.Contains(res.stderr, "Warning: your branch and the sandbox's have both moved: "))
		assert.Assert(t, is.Contains(res.stderr, "git reset "+merged))
		assert.Equal(t, w.git(t, "rev-parse", "main"), mine)

		res = w.ralph(t, "build").expect(t, 1)
		assert.Assert(t, is.Contains(res.stderr, "Error: your branch and the sandbox's have both moved: "))
		w.git(t, "reset", "-q", merged)
		w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{"echo b > b.txt"}})
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add b")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	})
}

func TestRepositoriesWithoutAPrivateGitDirectory(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		other := filepath.Join(w.dir, "other")
		w.git(t, "clone", "-q", w.repo, other)
		w.git(t, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "sub")
		for _, command := range []string{"build", "task"} {
			res := w.ralph(t, command, "list").expect(t, 1)
			assert.Assert(t, is.Contains(res.stderr, `Error: this repository has submodules ("sub")`))
			assert.Check(t, !strings.Contains(res.stderr, "Creating the sandbox"), "it was refused too late")
		}
		assert.Equal(t, len(w.containers(t)), 0, "nothing was made")
	})
}

// An agent can break its own git directory, but nothing of the user's. The sandbox
// gets it back within the same command, and works on.
func TestABrokenPrivateGitDirectory(t *testing.T) {
	for name, tc := range map[string]struct{ step, why string }{
		"removed":           {"rm -rf .git; true", "it is no git directory any more"},
		"HEAD and a commit": {"git commit -q --allow-empty -m kept; echo garbage > .git/HEAD", "it is no git directory any more"},
	} {
		t.Run(name, func(t *testing.T) {
			privately(t, func(t *testing.T, w *world) {
				w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
				w.ralph(t, "build").expect(t, 0)
				w.plan(t, task{ID: "b", Title: "Break it", Steps: []string{tc.step}})
				res := w.ralph(t, "build", "-n", "1")
				box := w.sandbox(t).Name
				assert.Check(t, is.Contains(res.stderr, "Warning: the git directory of the sandbox "+box+" is broken: "+tc.why+"; it was restored from your repository"))
				assert.Equal(t, w.git(t, "show", "main:a.txt"), "a")
				if name == "HEAD and a commit" {
					assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+box+"/main"), "kept")
				}
				w.ok(t, "task", "delete", "b")
				w.plan(t, task{ID: "c", Title: "Add c", Steps: []string{"echo c > c.txt"}})
				res = w.ralph(t, "build").expect(t, 0)
				assert.Check(t, !strings.Contains(res.stderr, "broken"))
				assert.Equal(t, w.git(t, "show", "main:c.txt"), "c")
				assert.Equal(t, w.git(t, "status", "--porcelain"), "")
			})
		})
	}
}

// A git directory that is broken while no command of ours looks keeps nobody from
// recreating or removing the sandbox. What is lost is said.
func TestABrokenPrivateGitDirectoryIsRemoved(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ralph(t, "build").expect(t, 0)
		for _, args := range [][]string{{"task", "list"}, {"--recreate", "task", "list"}, {"clean", "--force"}} {
			run(t, w.docker("exec", "-u", fmt.Sprintf("%d:%d", w.uid, w.gid), w.sandbox(t).ID, "sh", "-c", "rm -rf /opt/ralph-git/own/*")).expect(t, 0)
			res := w.ralph(t, args...)
			if args[0] == "task" {
				assert.Check(t, is.Contains(res.stderr, "Hint: run the command again"))
				w.ok(t, args...)
				continue
			}
			res.expect(t, 0)
			assert.Check(t, !strings.Contains(res.stderr, "docker rm"))
			assert.Check(t, strings.Contains(res.stderr, "is broken: it is no git directory any more"), res.stderr)
		}
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
		assert.Equal(t, w.git(t, "show", "main:a.txt"), "a")
	})
}

// A sandbox for one dispatch leaves its commits, and no volume.
func TestASandboxForOneDispatchWithAPrivateGitDirectory(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox]\nreuse_container = false\n")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
		assert.Equal(t, len(w.containers(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
	})
}

// A second command while the first works: commits of both come.
func TestTwoBuildsWithOnePrivateGitDirectory(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.plan(t,
			task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt; touch begun; while ! test -e .ralph/go; do sleep 0.1; done"}},
			task{ID: "b", Title: "Add b", Priority: 1, Steps: []string{"echo b > b.txt; git add b.txt; git commit -qm 'Add b' b.txt"}})
		first := start(t, w.docker("ralph", "build", "-n", "1"))
		appears(t, filepath.Join(w.repo, "begun"))
		w.ralph(t, "build", "-n", "1").expect(t, 0)
		assert.Assert(t, is.Contains(w.git(t, "log", "--format=%s"), "Add b"))
		w.write(t, filepath.Join(w.repo, ".ralph", "go"), "")
		first.wait(t).expect(t, 0)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done"})
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	})
}

func TestSelfTestWithAPrivateGitDirectory(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		res := w.ralph(t, "selftest").expect(t, 0)
		assert.Assert(t, !strings.Contains(res.stdout+res.stderr, "ralph-git-"), res.stdout)
	})
}

// An agent that commits a repository of its own, over a commit of the user's, is
// told of, and neither our advice nor what the user does then runs its programs.
func TestARepositoryThatTheAgentCommits(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		marker := filepath.Join(w.dir, "marker")
		w.plan(t, task{ID: "a", Title: "Plant", Steps: []string{
			"git init -q inner && cd inner && git config user.name x && git config user.email x@y && git commit -q --allow-empty -m x && git config core.fsmonitor 'touch " + marker + "; false'",
			"git add -A && git commit -q --amend -m rewritten",
		}})
		before := w.git(t, "rev-parse", "main")
		res := w.ralph(t, "build", "-n", "1")
		name := w.sandbox(t).Name
		assert.Check(t, is.Contains(res.stderr, `Warning: the sandbox's commits add or change the submodule "inner"`))
		assert.Check(t, is.Contains(res.stderr, "\nHint: do not merge them or check them out"))
		assert.Check(t, !strings.Contains(res.stderr, "git reset"))
		assert.Equal(t, w.git(t, "rev-parse", "main"), before)
		w.git(t, "log", "-p", "--submodule=short", "refs/ralph/"+name+"/@submodule/main")
		res = w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: the sandbox's commits add or change the submodule"))
		assert.Check(t, is.Contains(res.stderr, "\nHint: do not merge them or check them out"))
		w.git(t, "status")
		w.git(t, "diff", "HEAD")
		w.git(t, "commit", "-q", "--allow-empty", "-m", "The user's")
		_, err := os.Stat(marker)
		assert.Assert(t, os.IsNotExist(err), "the agent's program was run")

		// It can be mended in the sandbox, and the sandbox can be recreated.
		w.ok(t, "shell")
		w.ok(t, "--recreate", "task", "list")
		assert.NilError(t, os.RemoveAll(filepath.Join(w.repo, "inner")))
		w.ok(t, "task", "delete", "a")
		w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{"echo b > b.txt"}})
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "show", "main:b.txt"), "b")
	})
}

// A branch whose commits no repository should have is named, the others come, and
// nothing of it is left in the user's repository.
func TestABranchThatCannotBeFetched(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Branch off", Steps: []string{
			`tree=$(printf '100644 blob %s\t.git\n' $(git hash-object -w /etc/hostname) | git mktree) && git branch bad $(git commit-tree -m bad -p HEAD $tree)`,
			"git branch fine $(git commit-tree -m fine -p HEAD HEAD^{tree}); echo a > a.txt",
		}})
		res := w.ralph(t, "build").expect(t, 0)
		name := w.sandbox(t).Name
		assert.Check(t, is.Contains(res.stderr, `Warning: "refs/heads/bad" of the sandbox was not fetched: `))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/fine"), "fine")
		assert.Equal(t, w.git(t, "show", "main:a.txt"), "a")
		assert.Equal(t, w.git(t, "fsck", "--strict", "--unreachable"), "")
	})
}

// A named pipe where git opens a file keeps no command waiting. It is named.
func TestAPipeInTheWorktreeIsNamed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		pipe := filepath.Join(w.repo, ".gitattributes")
		assert.NilError(t, syscall.Mkfifo(pipe, 0o644))
		w.own(t, pipe)
		started := time.Now()
		res := w.ralph(t, "worktree", "ls")
		assert.Check(t, is.Contains(res.stdout+res.stderr, "git waits for ever at "+pipe+", which is no regular file: remove it"))
		assert.Check(t, time.Since(started) < patience/2)
	})
}

// A loop and its backlog belong to the branch that they were started for, whatever
// the agent checks out, and whatever a session leaves checked out.
func TestTheLoopStaysOnItsBranch(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"git checkout -qb other && echo a > a.txt && git add a.txt && git commit -qm 'On other'"}},
			task{ID: "b", Title: "Add b", Priority: 1, Steps: []string{"echo b > b.txt"}})
		res := w.ralph(t, "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: The worktree is back on branch main, and commits on other stay there"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done"})
		assert.Equal(t, w.git(t, "log", "--format=%s", "HEAD~..main"), "Add b")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		name := w.sandbox(t).Name
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/other"), "On other")

		w.ralph(t, "shell", "--", "sh", "-c", "git checkout -qb third && echo t > t.txt && git add t.txt && git commit -qm 'On third'").expect(t, 0)
		w.plan(t, task{ID: "c", Title: "Add c", Steps: []string{`test "$(git symbolic-ref --short HEAD)" = main && echo c > c.txt`}})
		res = w.ralph(t, "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "The worktree is back on branch main, and commits on third stay there"))
		assert.Equal(t, w.git(t, "log", "--format=%s", "HEAD~..main"), "Add c")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/third"), "On third")
	})
}

// What the user has not committed is left out of an agent's commits, and the index
// stays what the user has staged.
func TestUncommittedWorkStaysTheUsers(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, "code.txt"), "one\n")
		w.write(t, filepath.Join(w.repo, "staged.txt"), "one\n")
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "second")
		w.write(t, filepath.Join(w.repo, "staged.txt"), "two\n")
		w.git(t, "add", "staged.txt")
		w.write(t, filepath.Join(w.repo, "code.txt"), "two\n")
		w.write(t, filepath.Join(w.repo, ".env"), "KEY=user's\n")
		dirty := w.git(t, "status", "--porcelain")
		res := w.ralph(t, "--require-clean", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "has uncommitted changes of 3 files: "))
		assert.Check(t, is.Contains(res.stderr, "\nHint: commit or stash them"))
		assert.Equal(t, len(w.containers(t)), 0, "nothing was made")

		before := w.git(t, "rev-parse", "main")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt; echo three > staged.txt; git add -A; git commit -qam all"}},
			task{ID: "b", Title: "Nothing", Priority: 1, Steps: []string{"true"}})
		res = w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, strings.Count(res.stderr, "Your uncommitted changes of 3 files are left out of the sandbox's commits: "), 1, res.stderr)
		assert.Check(t, is.Contains(res.stderr, "Files with uncommitted changes of yours were changed, and are not committed: staged.txt"))
		assert.Equal(t, w.git(t, "diff", "--name-only", before, "main"), "a.txt")
		assert.Equal(t, w.git(t, "show", ":staged.txt"), "two")
		assert.Equal(t, w.git(t, "status", "--porcelain"), strings.Replace(dirty, "M  staged", "MM staged", 1))
	})
}
