//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/wire"
)

// Sandboxes with a git directory or a clone of their own: the agent's commits
// arrive on the user's branch.

// A one-time sandbox that has the only copy of commits is kept, and the next command
// fetches them and removes it.
func TestOneTimeSandboxWithUnfetchedCommitsIsKept(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox]\nreuse_container = false\n")
		res := w.ralph(t, "shell", "--", "sh", "-c", "echo a > a && git add a && git commit -qm 'Only a' && git tag good && "+
			`tree=$(printf '100644 blob %s\t.git\n' $(git hash-object -w a) | git mktree) && git reset -q --soft $(git commit-tree -m bad -p HEAD $tree)`)
		assert.Check(t, res.code != 0)
		kept := w.sandbox(t)
		assert.Check(t, is.Contains(res.stderr, "commits stay in sandbox "+kept.Name+": "))
		assert.Check(t, !strings.Contains(w.git(t, "log", "--format=%s"), "Only a"))

		run(t, w.docker("exec", "-u", w.insideUser(), kept.ID, "git", "-C", w.repo, "reset", "-q", "--soft", "good")).expect(t, 0)
		w.ok(t, "shell", "--", "true")
		assert.Check(t, is.Contains(w.git(t, "log", "--format=%s"), "Only a"))
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
	})
}

// The agent works on the live files, and its commits arrive on the user's branch
// without touching the index.
func TestCommitsArriveOnTheUsersBranch(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
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

// The user's branch is updated after each task, not only at the end of the loop.
func TestCommitsAreFetchedAfterEachTask(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}},
			task{ID: "b", Title: "Wait", Priority: 1, Steps: []string{"touch begun; while ! test -e go; do sleep 0.1; done"}})
		build := start(t, w.docker("ralph", "build", "-n", "2"))
		waitForFile(t, w.pathInside(t, "begun"))
		// Commits of an agent that still works come after half a minute.
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if last := w.git(t, "log", "-1", "--format=%s"); last != "Add a" {
				return poll.Continue("the last commit is %q", last)
			}
			return poll.Success()
		}, poll.WithTimeout(20*time.Second), poll.WithDelay(200*time.Millisecond))
		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t).expect(t, 0)
	})
}

// Recreating a sandbox fetches its commits first, and removes the volume.
func TestRecreateFetchesCommitsAndRemovesTheVolume(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Branch off", Steps: []string{"git switch -qc side && echo s > s.txt && git add -A && git commit -qm side && git switch -q main"}})
		res := w.ralph(t, "build", "-n", "1").expect(t, 10)
		name := w.sandbox(t).Name
		assert.Assert(t, is.Contains(res.stderr, `The sandbox's branch "side" is at refs/ralph/`+name+`/side`))
		assert.Equal(t, w.git(t, "branch", "--format=%(refname:short)"), "main")

		was := w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/side")
		assert.Equal(t, was, "side")
		first := w.container(t).ID
		w.createSandbox(t, "--recreate")
		assert.Assert(t, w.container(t).ID != first)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
		w.ok(t, "task", "delete", "a")

		// A sandbox that others have removed leaves its volume.
		w.plan(t, task{ID: "b", Title: "Commit and hang", Steps: []string{"touch begun; git add -A; git commit -qm hanging; touch committed; sleep 1000"}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		waitForFile(t, w.pathInside(t, "committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		run(t, w.docker("rm", "-f", w.container(t).ID)).expect(t, 0)
		w.createSandbox(t)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "first")
		assert.Assert(t, is.Contains(w.git(t, "for-each-ref", "--format=%(refname) %(subject)", "refs/ralph"), " hanging"))
	})
}

// When a command is killed, the next one fetches the commits.
func TestNextCommandFetchesCommitsOfAKilledOne(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Commit and wait", Steps: []string{"echo a > a.txt; git add a.txt; git commit -qm a; touch committed; while ! test -e go; do sleep 0.1; done"}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		waitForFile(t, w.pathInside(t, "committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "first")
		w.createSandbox(t)
		name := w.sandbox(t).Name
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/main"), "a")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "first", "the agent may amend it")

		// The loop continues with the next command, and so do its commits.
		w.write(t, w.pathInside(t, "go"), "")
		w.ok(t, "attach")
		assert.Equal(t, w.statuses(t)["a"], "done")
		assert.Assert(t, w.git(t, "log", "-1", "--format=%s") != "first")
	})
}

func TestCloneOfALinkedWorktree(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
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

// When both branches have moved, neither is changed, and the hint that is printed
// works.
func TestDivergedBranchesAreReported(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt; touch begun; while ! test -e .ralph/go; do sleep 0.1; done"}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		waitForFile(t, w.pathInside(t, "begun"))
		w.write(t, filepath.Join(w.repo, "user.txt"), "u\n")
		w.git(t, "add", "user.txt")
		w.git(t, "commit", "-qm", "The user's")
		mine := w.git(t, "rev-parse", "main")
		w.write(t, w.pathInside(t, ".ralph/go"), "")
		res := build.wait(t).expect(t, wire.ExitUnmerged)
		merged := "refs/ralph/" + w.sandbox(t).Name + "/@merged"
		assert.Assert(t, is.Contains(res.stderr, "Warning: your branch and the sandbox's have diverged: "))
		assert.Assert(t, is.Contains(res.stderr, "git reset --keep "+merged))
		assert.Equal(t, w.git(t, "rev-parse", "main"), mine)

		res = w.ralph(t, "build").expect(t, 1)
		assert.Assert(t, is.Contains(res.stderr, "Error: your branch and the sandbox's have diverged: "))
		w.git(t, "reset", "-q", "--keep", merged)
		w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{"echo b > b.txt"}})
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add b")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	})
}

// A submodule is a link that stays as it is; only what changes one is not taken.
func TestRepositoryWithASubmodule(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		other := filepath.Join(w.dir, "other")
		w.git(t, "clone", "-q", w.repo, other)
		w.git(t, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "sub")
		w.git(t, "commit", "-qm", "submodule")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt && git add a.txt && git commit -qm 'Only a'"}})
		w.ok(t, "build", "-n", "1")
		assert.Equal(t, w.git(t, "diff", "--name-only", "HEAD~", "HEAD"), "a.txt")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	})
}

// A one-time sandbox delivers its commits and leaves no volume.
func TestOneTimeSandboxLeavesCommitsAndNoVolume(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox]\nreuse_container = false\n")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
		assert.Equal(t, len(w.containers(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
	})
}

// A loop and its backlog belong to the branch that they were started for, whatever
// the agent checks out, and whatever a session leaves checked out.
func TestLoopStaysOnItsBranch(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"git merge -q other 2>/dev/null && exit; git checkout -qb other && echo a > a.txt && git add a.txt && git commit -qm 'On other'"}},
			task{ID: "b", Title: "Add b", Priority: 1, Steps: []string{"echo b > b.txt"}})
		res := w.ralph(t, "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: switched the worktree back to branch main; commits remain on other"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done"})
		subjects := strings.Split(w.git(t, "log", "--format=%s", "main"), "\n")
		assert.Check(t, slices.Contains(subjects, "Add b") && slices.Contains(subjects, "On other"), subjects)
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		name := w.sandbox(t).Name
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/other"), "On other")

		w.ralph(t, "shell", "--", "sh", "-c", "git checkout -qb third && echo t > t.txt && git add t.txt && git commit -qm 'On third'").expect(t, 0)
		w.plan(t, task{ID: "c", Title: "Add c", Steps: []string{`test "$(git symbolic-ref --short HEAD)" = main && echo c > c.txt`}})
		res = w.ralph(t, "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "switched the worktree back to branch main; commits remain on third"))
		assert.Equal(t, w.git(t, "log", "--format=%s", "HEAD~..main"), "Add c")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/third"), "On third")
	})
}

// What the user has not committed is left out of an agent's commits, and the index
// stays what the user has staged.
func TestUncommittedChangesAreNotInTheAgentsCommits(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
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
		assert.Check(t, is.Contains(res.stderr, "has uncommitted changes in 3 files: "))
		assert.Check(t, is.Contains(res.stderr, "\nHint: commit or stash them"))
		assert.Equal(t, len(w.containers(t)), 0, "nothing was made")

		before := w.git(t, "rev-parse", "main")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"test ! -e .env; echo a > a.txt; git add -A; git commit -qam all"}})
		res = w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, strings.Count(res.stderr, "Warning: the sandbox does not have your uncommitted changes in 3 files: "), 1, res.stderr)
		assert.Equal(t, w.git(t, "diff", "--name-only", before, "main"), "a.txt")
		assert.Equal(t, w.git(t, "status", "--porcelain"), dirty)

		// Both have changed a file.
		before = w.git(t, "rev-parse", "main")
		w.plan(t, task{ID: "b", Title: "Change it", Steps: []string{"echo three > staged.txt; git commit -qam three"}})
		res = w.ralph(t, "build").expect(t, wire.ExitUnmerged)
		assert.Check(t, is.Contains(res.stderr, `your "staged.txt" would be overwritten`))
		assert.Equal(t, w.git(t, "rev-parse", "main"), before)
		assert.Equal(t, w.git(t, "status", "--porcelain"), dirty)
		w.git(t, "stash", "-q", "--include-untracked")
		w.ok(t, "shell", "--", "true")
		assert.Equal(t, w.git(t, "show", "main:staged.txt"), "three")
	})
}

// A microVM has the same clone as a container: nothing of the repository is mounted, its commits arrive on
// the user's branch, and removing it loses none.
func TestCloneInAMicroVM(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ok(t, "build")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "main"), "Add a")
		assert.Equal(t, w.read(t, "a.txt"), "a\n")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		assert.Check(t, is.Contains(w.ok(t, "logs"), "All tasks complete"))
		sb := w.sandbox(t)
		made, err := w.engine.Client(t).ContainerInspect(t.Context(), sb.ID, client.ContainerInspectOptions{})
		assert.NilError(t, err)
		for _, m := range made.Container.Mounts {
			assert.Check(t, !strings.HasPrefix(m.Source, w.repo), "%s is mounted", m.Source)
		}

		// What is not committed is shown, and comes into the worktree on request.
		w.ok(t, "shell", "--", "sh", "-c", "echo more >> a.txt; echo new > new.txt")
		diff := w.ok(t, "diff")
		assert.Check(t, is.Contains(diff, "+more"))
		assert.Check(t, is.Contains(diff, "+new"))
		assert.Equal(t, w.read(t, "a.txt"), "a\n")
		w.ok(t, "apply")
		assert.Equal(t, w.read(t, "a.txt"), "a\nmore\n")
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "Mine")

		// Work that the user's branch does not get survives the sandbox.
		w.write(t, filepath.Join(w.repo, "d.txt"), "the user's\n")
		w.plan(t, task{ID: "d", Title: "Add d", Steps: []string{"echo d > d.txt"}})
		res := w.ralph(t, "build").expect(t, wire.ExitUnmerged)
		assert.Check(t, is.Contains(res.stderr, `your "d.txt" would be overwritten`))
		w.ok(t, "clean", "--force")
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+sb.Name+"/main"), "Add d")
		assert.Equal(t, w.read(t, "d.txt"), "the user's\n")
		assert.Equal(t, w.statuses(t)["a"], "done")
	})
}

// An agent that replaces its git directory, which is behind a link there, ends a run and no more.
func TestReplacedGitDirectoryInAMicroVMIsRestored(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Break it", Steps: []string{"rm -rf .git; git init -q; echo x > .git/HEAD"}})
		w.ralph(t, "build", "-n", "1")
		sb := w.sandbox(t)
		w.ok(t, "task", "delete", "a")
		w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{"echo b > b.txt"}})
		w.ok(t, "build")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "main"), "Add b")
		assert.Equal(t, w.sandbox(t).ID, sb.ID)
		assert.Check(t, is.Contains(w.ralph(t, "clean", "--force").expect(t, 1).stderr, ".git/ralph-lost"))
	})
}

// A linked worktree and a shallow repository have clones, too.
func TestCloneOfALinkedAndAShallowRepositoryInAMicroVM(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.git(t, "commit", "-q", "--allow-empty", "-m", "second")
		shallow := filepath.Join(w.dir, "shallow")
		w.git(t, "clone", "-q", "--depth", "1", "file://"+w.repo, shallow)
		cmd := w.command("git", "remote", "set-url", "origin", "https://git.example/"+w.slug+".git")
		cmd.Dir = shallow
		run(t, cmd).expect(t, 0)
		linked := filepath.Join(w.dir, "linked")
		w.git(t, "worktree", "add", "-q", "-b", "side", linked)
		for _, dir := range []string{linked, shallow} {
			cmd := w.docker("ralph", "shell", "--", "sh", "-c", "git commit -q --allow-empty -m inside")
			cmd.Dir = dir
			run(t, cmd).expect(t, 0)
			assert.Equal(t, w.git(t, "-C", dir, "log", "-1", "--format=%s"), "inside")
		}
	})
}

// A clone that was removed without docker-ralph is made again. The backlog was not in it.
func TestMicroVMThatWasRemovedWithItsCloneIsReplaced(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}}, task{ID: "b", Title: "Fail", Steps: []string{"exit 1"}})
		w.createUnrelatedMicroVM(t)
		w.ralph(t, "build", "-n", "1").expect(t, 0)
		w.remove(t, w.sandbox(t))
		w.createSandbox(t)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "open"})
		w.ok(t, "shell", "--", "test", "-e", "a.txt")
	})
}

// Commits of a clone that sbx has made for an earlier version are fetched by the user.
func TestCloneMadeBySbxIsKept(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.createSandbox(t, "--workspace", "live")
		sb := w.sandbox(t)
		file := filepath.Join(w.config, "ralph", "scopes", sb.Name, "scope.json")
		content, err := os.ReadFile(file)
		assert.NilError(t, err)
		var sections map[string]map[string]any
		assert.NilError(t, json.Unmarshal(content, &sections))
		made := sections["sbx"]
		made["private"] = true
		settings, known := made["settings"].(string)
		assert.Assert(t, known)
		made["settings"] = strings.Replace(settings, "{", `{"private git directory":"on",`, 1)
		content, err = json.Marshal(sections)
		assert.NilError(t, err)
		w.write(t, file, string(content))
		for _, args := range [][]string{{"shell", "--", "true"}, {"--workspace", "live", "build"}, {"--recreate", "shell", "--", "true"}, {"clean", "--force"}, {"diff"}} {
			res := w.ralph(t, args...)
			assert.Check(t, res.code != 0, "%q", args)
			assert.Check(t, is.Contains(res.stderr, "sbx made the clone in sandbox "+sb.Name), "%q", args)
			assert.Check(t, is.Contains(res.stderr, "git fetch sandbox-"+sb.Name), "%q", args)
		}
		assert.Equal(t, w.sandbox(t).ID, sb.ID)
		w.ok(t, "clean", "--force", "--discard-commits", sb.Name)
		assert.Equal(t, len(w.sandboxes(t)), 0)
	})
}

func TestCloneIsRejectedWhereItIsImpossible(t *testing.T) {
	onMicroVM(t, config.DriverDockerSandbox, func(t *testing.T, w *world) {
		res := w.ralph(t, "--workspace", "clone", "shell", "--", "true").expect(t, 1)
		assert.Assert(t, is.Contains(res.stderr, `Error: sandbox.workspace = "clone" works with the drivers container and sbx only, not docker-sandbox`))
		assert.Equal(t, len(w.sandboxes(t)), 0, "nothing was made")
	})
}

func TestSelfTestLeavesNoClone(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		res := w.ralph(t, "selftest").expect(t, 0)
		assert.Assert(t, !strings.Contains(res.stdout+res.stderr, "ralph-git-"), res.stdout)
	})
}
