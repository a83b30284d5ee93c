//go:build unix

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire"
)

// Sandboxes with a clone of the worktree: they mount nothing of this machine, and the
// worktree only moves by fast-forward.

// withClone runs a test in a container with a clone of the worktree.
func withClone(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	onEngines(t, func(t *testing.T, w *world) {
		w.useClone()
		test(t, w)
	})
}

func (w *world) useClone() {
	w.setenv("RALPH_WORKSPACE", "clone")
}

// assertNoHostMounts asserts that no container of the world has a directory of this machine.
func (w *world) assertNoHostMounts(t *testing.T) {
	t.Helper()
	all := w.containers(t)
	assert.Assert(t, len(all) > 0)
	for _, c := range all {
		res, err := w.engine.Client(t).ContainerInspect(context.WithoutCancel(t.Context()), c.ID, client.ContainerInspectOptions{})
		assert.NilError(t, err)
		for _, m := range res.Container.Mounts {
			assert.Equal(t, m.Type, mount.TypeVolume, "%s of %s", m.Destination, c.Names)
		}
	}
}

// A loop in a clone: commits arrive with their files, uncommitted files stay here,
// and the backlog outlives the sandbox.
func TestCloneFromPlanToClean(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, "mine.txt"), "not committed\n")
		w.plan(
			t,
			task{ID: "a", Title: "Add a", Steps: []string{"test ! -e mine.txt", "echo a > a.txt && git add a.txt && git commit -qm 'Only a'"}},
			task{ID: "b", Title: "Add b", Priority: 2, Steps: []string{"echo from the agent && cat a.txt > b.txt && git add b.txt && git commit -qm 'Only b'"}},
			task{ID: "c", Title: "Left", Priority: 3, Steps: []string{"true"}},
		)
		w.createSandbox(t)
		w.assertNoHostMounts(t)
		res := w.ralph(t, "build", "-n", "2").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: the sandbox does not have your uncommitted changes in 1 file: mine.txt\n"))
		assert.Check(t, is.Contains(res.stderr, "2 commits of the sandbox are on your branch main"))
		assert.Equal(t, w.read(t, "a.txt")+w.read(t, "b.txt"), "a\na\n")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "?? mine.txt")
		w.assertNoHostMounts(t)

		assert.Check(t, is.Contains(w.ok(t, "logs"), "from the agent"))
		assert.Check(t, is.Contains(w.ok(t, "status"), "2 done"))
		_, err := os.Stat(filepath.Join(w.repo, ".ralph", "tasks.db"))
		assert.Check(t, os.IsNotExist(err), "the backlog is not in the worktree")

		w.ok(t, "clean", "--force")
		assert.Equal(t, len(w.containers(t)), 0)
		for _, name := range w.volumes(t) {
			assert.Check(t, strings.HasPrefix(name, "ralph-cache-"), name)
		}
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done", "c": "open"})
		w.ok(t, "build", "-n", "1")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done", "c": "done"})
	})
}

// A file of the user is never overwritten: the branch follows once it is out of the way.
func TestCloneDoesNotOverwriteFiles(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, ".gitignore"), "*.env\n")
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "ignore")
		w.write(t, filepath.Join(w.repo, "secret.env"), "mine\n")
		w.plan(t, task{ID: "a", Title: "Add", Steps: []string{"echo theirs > secret.env && git add -f secret.env && git commit -qm agent"}})
		res := w.ralph(t, "build", "-n", "1").expect(t, wire.ExitUnmerged)
		assert.Check(t, is.Contains(res.stderr, `your "secret.env" would be overwritten: your branch main was not fast-forwarded`))
		assert.Equal(t, w.read(t, "secret.env"), "mine\n")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "ignore")
		assert.NilError(t, os.Rename(filepath.Join(w.repo, "secret.env"), filepath.Join(w.dir, "saved")))
		w.createSandbox(t)
		assert.Equal(t, w.read(t, "secret.env"), "theirs\n")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "agent")
	})
}

// What is only in the clone is saved before that is removed.
func TestCloneIsSavedBeforeItIsRemoved(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, "mine.txt"), "sent\n")
		w.ok(t, "--with-changes", "shell", "--", "sh", "-c", "cp mine.txt copied.txt && echo more >> specs/things.md")
		name := w.sandbox(t).Name
		w.ok(t, "shell", "--", "sh", "-c", "echo /built/ >.git/info/exclude && mkdir built && touch built/a")
		res := w.ralph(t, "clean", "--force").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Note: only sandbox "+name+" has built/, which git ignores"))
		assert.Equal(t, w.git(t, "show", "refs/ralph/"+name+"/@stash^3:copied.txt"), "sent")
		assert.Check(t, is.Contains(w.git(t, "show", "refs/ralph/"+name+"/@stash:specs/things.md"), "more"))
		assert.Equal(t, w.git(t, "status", "--porcelain"), "?? mine.txt")
	})
}

// The user's agent settings are copied, because a clone mounts nothing. The agent cannot
// change the copy.
func TestCloneHasAgentSettings(t *testing.T) {
	andRemote(t, withClone, func(t *testing.T, w *world) {
		image := w.imageOf(t, map[string]string{"/usr/local/bin/claude": "#!/bin/sh\necho not used\n"})
		claude := []string{"--agent", "claude", "--image", image, "shell", "--", "sh", "-c"}
		w.write(t, filepath.Join(w.home, ".claude", "CLAUDE.md"), "Be brief.\n")
		script := "cat ~/.claude/CLAUDE.md; ! touch /run/docker-ralph-config/*/.claude/CLAUDE.md 2>/dev/null"
		assert.Equal(t, w.ok(t, append(claude, script)...), "Be brief.\n")
		w.write(t, filepath.Join(w.home, ".claude", "CLAUDE.md"), "Be briefer.\n")
		assert.Equal(t, w.ok(t, append(claude, script)...), "Be briefer.\n")
		w.assertNoHostMounts(t)
	})
}

// A clone gets the ignored files that the configuration names, and the user approves.
func TestIgnoredFilesAreCopiedToAClone(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.ignore(t, ".env.test")
		w.configure(t, "[workspace]\ninclude = [\".env.test\"]\n")
		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `workspace.include = ".env.test"`))
		w.ok(t, "trust", "--force")
		res = w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `Error: no ignored file in `+w.repo+` matches ".env.test"`))
		assert.Equal(t, w.ok(t, "ls", "-q"), "", "nothing was made")

		w.write(t, filepath.Join(w.repo, ".env.test"), "key=1\n")
		res = w.ralph(t, "shell", "--", "cat", ".env.test").expect(t, 0)
		assert.Equal(t, res.stdout, "key=1\n")
		assert.Check(t, is.Contains(res.stderr, "Copied 1 file that git ignores to the sandbox: .env.test"))
		res = w.ralph(t, "shell", "--", "true").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, ".env.test"))

		w.ignore(t, ".env.*")
		w.write(t, filepath.Join(w.repo, ".env.local"), "key=2\n")
		w.write(t, filepath.Join(w.repo, ".worktreeinclude"), ".env.local\nmissing\n")
		res = w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, ".worktreeinclude"))
		w.ok(t, "trust", "--force")
		assert.Equal(t, w.ok(t, "shell", "--", "cat", ".env.local"), "key=2\n")
	})
}

// A new clone is set up once, before an agent starts.
func TestCloneIsSetUpOnce(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.ignore(t, "ready")
		w.configure(t, "[workspace]\nsetup = [\"echo one >>ready; echo printed\", \"test -e /dev/shm/allowed\"]\n")
		w.ok(t, "task", "create", "t", "T", "-s", `["cat ready >made"]`)
		res := w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `"test -e /dev/shm/allowed" has failed with exit code 1`))
		assert.Check(t, is.Contains(res.stderr, "Hint: correct workspace.setup"))
		assert.Check(t, !strings.Contains(res.stdout, "printed"))
		shell := start(t, w.docker("ralph", "shell", "--", "sh", "-c", "echo inside; until test -e /dev/shm/allowed; do sleep .1; done"))
		eventually(t, func() error {
			if !strings.Contains(shell.stdout.String(), "inside") {
				return errors.New("the shell has not started")
			}
			return nil
		})
		res = w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "is not set up, and another command is running in it\nHint: wait for its end"))
		w.ralph(t, "shell", "--", "touch", "/dev/shm/allowed").expect(t, 0)
		res = shell.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: setting up sandbox "))

		res = w.ralph(t, "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Setting up the sandbox: echo one >>ready; echo printed\nprinted\n"))
		assert.Equal(t, w.read(t, "made"), "one\none\none\n", "by the first build, the first shell, and this one")
		assert.Check(t, !strings.Contains(w.ralph(t, "shell", "--", "true").expect(t, 0).stderr, "Setting up"))
	})
}

// What a shell leaves uncommitted is shown, and gets into the worktree on request only.
func TestUncommittedChangesOfACloneAreApplied(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		res := w.ralph(t, "diff").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "have no sandbox"))
		res = w.ralph(t, "shell", "--", "sh", "-c", "echo agent > made.txt; echo more >> specs/things.md; git init -q scaffold").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Changes in 2 files are not committed, and only in the sandbox"))
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")

		run(t, w.docker("stop", "-t", "0", w.sandbox(t).ID)).expect(t, 0)
		res = w.ralph(t, "diff").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: nested repositories in the sandbox are left out: scaffold/"))
		diff := res.stdout
		assert.Check(t, is.Contains(diff, "+agent"))
		assert.Check(t, is.Contains(diff, "+more"))
		assert.Equal(t, w.ok(t, "diff", "--name-only"), "made.txt\nspecs/things.md\n")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")

		w.write(t, filepath.Join(w.repo, "made.txt"), "mine\n")
		res = w.ralph(t, "apply").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `Error: your "made.txt" would be overwritten: nothing was applied`))
		assert.Equal(t, w.git(t, "status", "--porcelain"), "?? made.txt")

		assert.NilError(t, os.Remove(filepath.Join(w.repo, "made.txt")))
		assert.Equal(t, w.ok(t, "apply"), "made.txt\nspecs/things.md\n")
		assert.Equal(t, w.git(t, "status", "--porcelain"), " M specs/things.md\n?? made.txt")
		reverse := w.command("git", "apply", "--check", "--reverse")
		reverse.Stdin = strings.NewReader(diff)
		run(t, reverse).expect(t, 0)
	})
}

// The files of a clone whose volume was removed by hand are checked out again; commits in the other
// volume are kept.
func TestRemovedVolumeOfACloneIsFilledAgain(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		commit := "mkdir d && echo a >d/a.txt && git add d && git commit -qm agent"
		w.ignore(t, "ready", "env")
		w.write(t, filepath.Join(w.repo, "env"), "key\n")
		w.configureUser(t, "[workspace]\nsetup = [\"cp env ready\"]\ninclude = [\"env\"]\n")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{commit}})
		w.ralph(t, "build", "-n", "1").expect(t, 0)
		name := w.sandbox(t).Name
		run(t, w.docker("rm", "-f", "-v", w.sandbox(t).ID)).expect(t, 0)
		run(t, w.docker("volume", "rm", "ralph-clone-"+name)).expect(t, 0)
		res := w.ralph(t, "shell", "--", "sh", "-c", "git status --porcelain; cat d/a.txt ready; stat -c %u .").expect(t, 0)
		assert.Check(t, is.Equal(res.stdout, "a\nkey\n1000\n"))
		assert.Check(t, is.Contains(res.stderr, "Warning: the volume with the sandbox's files was removed"))
		assert.Check(t, is.Equal(w.git(t, "show", "main:d/a.txt"), "a"))
		assert.Check(t, !strings.Contains(w.ralph(t, "shell", "--", "true").stderr, "was removed"))
	})
}

// A check that needs a file which git ignores fails in a clone, and the file is named.
func TestFailedCheckNamesTheIgnoredFile(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, "check.sh"), "cat .env.test\n")
		w.git(t, "add", "check.sh")
		w.ignore(t, ".env.test")
		w.write(t, filepath.Join(w.repo, ".env.test"), "key\n")
		w.configureUser(t, "[checks]\ncommands = [\"sh check.sh\"]\n")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a >a.txt"}})
		res := w.ralph(t, "build", "-n", "1")
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, "Hint: the sandbox does not have what git ignores: .env.test; add it to workspace.include"))
		w.configureUser(t, "[checks]\ncommands = [\"sh check.sh\"]\n[workspace]\ninclude = [\".env.test\"]\n")
		w.ok(t, "build", "-n", "1")
	})
}

// A check that fails regardless of the tasks is one of the user's questions, which is asked once. It is compared where it
// has the ignored files that it needs.
func TestBrokenCheckWithIgnoredFiles(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		w.ignore(t, ".env.test")
		w.write(t, filepath.Join(w.repo, ".env.test"), "key\n")
		w.configureUser(t, "[checks]\ncommands = [\"cat .env.test && echo $(mktemp -u) failed at $(date +%N) && exit 3\"]\n[workspace]\ninclude = [\".env.test\"]\n")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a >a.txt"}}, task{ID: "b", Title: "Add b", Steps: []string{"echo b >b.txt"}})
		res := w.ralph(t, "build").expect(t, 13)
		assert.Check(t, is.Contains(res.stderr, "fails the same way on commit "))
		asked := w.statuses(t)
		assert.DeepEqual(t, asked, map[string]string{"a": "question", "b": "question"})
		for id := range asked {
			w.ok(t, "answer", id, "the task must fix it")
		}
		res = w.ralph(t, "build", "-n", "2").expect(t, 10)
		assert.Check(t, is.Contains(res.stdout, "reopened a\n"))
		assert.Check(t, !strings.Contains(res.stdout, "waits for an answer"), res.stdout)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open", "b": "open"})
	})
}
