//go:build unix

package e2e

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// Loops whose command on this machine was killed go on to the end of their run, and then wait for another
// command. The commands that show them fetch their commits.

// inside runs a command in the world's sandbox, as the agent.
func (w *world) inside(t *testing.T, args ...string) result {
	t.Helper()
	return run(t, w.docker(append([]string{"exec", "-u", fmt.Sprintf("%d:%d", w.uid, w.gid), w.sandbox(t).ID}, args...)...))
}

// killed starts a build, and kills its command once the agent waits for /tmp/go.
func (w *world) killed(t *testing.T, args ...string) {
	t.Helper()
	build := start(t, w.docker(append([]string{"ralph"}, args...)...))
	eventually(t, func() error {
		if len(w.sandboxes(t)) == 0 || w.inside(t, "test", "-e", "/tmp/waiting").code != 0 {
			return fmt.Errorf("the agent does not wait")
		}
		return nil
	})
	build.signalGroup(syscall.SIGKILL)
	build.wait(t)
}

func TestShownLoopIsFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginesFor(t)[0])
	w.useClone()
	w.plan(
		t,
		task{ID: "a", Title: "A", Steps: []string{"echo a > a.txt && git add a.txt && git commit -qm 'Only a'"}},
		task{ID: "b", Title: "B", Priority: 1, Steps: []string{"echo b > b.txt && git add b.txt && git commit -qm draft && touch /tmp/waiting && until [ -e /tmp/go ]; do sleep 0.1; done; git commit -q --amend -m 'Only b'"}},
	)
	w.killed(t, "build", "-n", "2")
	last := func(ref string) string { return w.git(t, "for-each-ref", "--format=%(subject)", ref) }
	const main = "refs/heads/main"
	own := "refs/ralph/" + w.sandbox(t).Name + "/main"
	w.ok(t, "ls")
	assert.Assert(t, last(own) != "draft")
	w.ralph(t, "status").expect(t, 0)
	assert.Equal(t, last(own), "draft")
	assert.Equal(t, last(main), "Only a", "an agent can amend its last commit")

	attach := start(t, w.docker("ralph", "attach"))
	w.inside(t, "touch", "/tmp/go").expect(t, 0)
	attach.wait(t).expect(t, 0)
	assert.Equal(t, last(main), "Only b")
	assert.Equal(t, w.read(t, "b.txt"), "b\n")
	assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done"})
	res := w.ralph(t, "attach").expect(t, 1)
	assert.Check(t, is.Contains(res.stderr, ": the last loop has ended\n"))
}

// What a run had not committed when its sandbox was killed is set aside for its task, whoever has released that: the commit of
// the next task does not have it.
func TestUncommittedFilesOfAKilledRun(t *testing.T) {
	for _, how := range []string{"with its command", "alone"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, enginesFor(t)[0])
			w.useClone()
			w.plan(t, task{ID: "a", Title: "Add a", Priority: 1, Steps: []string{"echo half > half.txt; echo half >> README.md; touch /tmp/waiting; sleep 1000"}})
			if how == "alone" {
				build := start(t, w.docker("ralph", "build", "-n", "1"))
				eventually(t, func() error {
					if len(w.sandboxes(t)) == 0 || w.inside(t, "test", "-e", "/tmp/waiting").code != 0 {
						return fmt.Errorf("the agent does not wait")
					}
					return nil
				})
				run(t, w.docker("kill", w.sandbox(t).ID)).expect(t, 0)
				build.wait(t).expect(t, 6)
			} else {
				w.killed(t, "build")
				run(t, w.docker("kill", w.sandbox(t).ID)).expect(t, 0)
			}
			w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{"test ! -e half.txt && echo b > b.txt"}})

			res := w.ralph(t, "build", "-n", "1")
			assert.Check(t, is.Contains(res.stdout, "Iteration 1: done b"))
			assert.Equal(t, w.git(t, "show", "--format=", "--name-only", "main"), "b.txt")
			ref := w.sandboxRef(t, "attempts/a/1")
			assert.Equal(t, w.git(t, "show", "--format=", "--name-only", ref), "README.md\nhalf.txt")
			assert.Check(t, is.Contains(w.ok(t, "task", "show", "a"), ref))
		})
	}
}

// A plan of a sandbox does not bring what a killed build has left to the user's branch.
func TestPlanAfterAKilledBuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginesFor(t)[0])
	w.useClone()
	w.configure(t, "[agent]\nname = \"mine\"\n[agents.mine]\ncommand = [\"sh\", \"{prompt_file}\"]\n")
	w.write(t, filepath.Join(w.repo, "specs", "a.md"), "# A\n")
	w.write(t, filepath.Join(w.repo, ".ralph", "prompts", "build.md"), "ralph task claim a; echo a > a.txt; git add a.txt; git commit -qm left; touch /tmp/waiting; sleep 1000\n")
	w.write(t, filepath.Join(w.repo, ".ralph", "prompts", "plan.md"), "echo p > p.txt; git add p.txt; git commit -qm planned; exit # a note about the attempt follows\n")
	w.git(t, "add", "-A")
	w.git(t, "commit", "-qm", "specs")
	flags := []string{"--agent", "mine", "--image", engines.BaseImage()}
	w.ok(t, append(flags, "task", "create", "a", "Add a")...)
	w.killed(t, append(flags, "build")...)
	run(t, w.docker("kill", w.sandbox(t).ID)).expect(t, 0)

	w.ok(t, append(flags, "plan")...)
	assert.Equal(t, w.git(t, "log", "--format=%s", "-2"), "planned\nspecs")
	assert.Check(t, is.Contains(w.git(t, "log", "--all", "--format=%s"), "left"), "it is kept")
}

// What a killed command has left is scanned for secrets, whatever fetches it.
func TestSecretScanOfAFollowedLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginesFor(t)[0])
	w.useClone()
	w.plan(t, task{ID: "a", Title: "Leak", Steps: []string{
		"touch /tmp/waiting && until [ -e /tmp/go ]; do sleep 0.1; done; printf 'key = AKIA%s\\n' QYLPMN5HHHFPZAM2 > deploy.env && git add deploy.env && git commit -qm leak",
	}})
	before := w.git(t, "rev-parse", "main")
	w.killed(t, "--cred-scan", "build", "-n", "1")
	attach := start(t, w.docker("ralph", "attach"))
	w.inside(t, "touch", "/tmp/go").expect(t, 0)
	res := attach.wait(t)
	assert.Check(t, is.Contains(res.stdout+res.stderr, "deploy.env:1: aws-access-token"))
	assert.Equal(t, w.statuses(t)["a"], "open")
	res = w.ralph(t, "clean", "--force").expect(t, 1)
	assert.Check(t, is.Contains(res.stderr, "whose commits were refused is only in the sandbox: refs/ralph/refused/a/1"))
	w.ralph(t, "clean", "--discard-commits", "--force", w.sandbox(t).Name).expect(t, 0)
	assert.Equal(t, w.git(t, "rev-parse", "main"), before)
	assert.Equal(t, w.git(t, "rev-list", "--all", "--count", "--not", before), "0")
}

// A repair of git while a loop works would lose what that commits.
func TestGitDirectoryIsRepairedAfterLoops(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		head := filepath.Join(w.repo, ".git", "HEAD")
		w.plan(
			t,
			task{ID: "a", Title: "A", Steps: []string{
				"touch /tmp/waiting && until [ -e /tmp/go ]; do sleep 0.1; done; echo 'ref: refs/heads/main' > " + head,
				"echo a > a.txt && git add a.txt && git commit -qm 'Only a'; rm " + head,
			}},
			task{ID: "b", Title: "B", Priority: 1, Steps: []string{"echo b > b.txt && git add b.txt && git commit -qm 'Only b'"}},
		)
		first := start(t, w.docker("ralph", "build", "-n", "1"))
		eventually(t, func() error {
			if len(w.sandboxes(t)) == 0 || w.inside(t, "test", "-e", "/tmp/waiting").code != 0 {
				return fmt.Errorf("the agent does not wait")
			}
			return nil
		})
		run(t, w.docker("exec", "-u", w.insideUser(), w.sandbox(t).ID, "rm", head)).expect(t, 0)
		beside := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(beside.stderr, "sandbox in use: not repaired"))
		plan := start(t, w.docker("ralph", "plan"))
		awaitOutput(t, plan, "Waiting for other commands in sandbox")
		second := start(t, w.docker("ralph", "build", "-n", "1"))
		awaitOutput(t, second, "Waiting for another loop in sandbox")
		w.inside(t, "touch", "/tmp/go").expect(t, 0)
		ended, planned, res := first.wait(t), plan.wait(t), second.wait(t)
		if res.code != 0 { // says which of them repaired it, and what was committed twice
			t.Logf("the first loop: %+v\nthe plan: %+v\n%s", ended, planned, w.git(t, "log", "--all", "--graph", "--oneline"))
		}
		res.expect(t, 0)
		assert.Equal(t, w.git(t, "log", "--format=%s", "main", "--", "b.txt"), "Only b")
		// What the failed run has committed comes along only if its loop has not ended when the other begins.
		assert.Equal(t, w.git(t, "log", "--all", "--format=%s", "--", "a.txt"), "Only a")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open", "b": "done"})
	})
}

// A branch that cannot be fetched keeps a sandbox, unless its commits are discarded.
func TestUnfetchableSandboxIsKept(t *testing.T) {
	withClone(t, assertUnfetchableSandboxIsKept)
}

func assertUnfetchableSandboxIsKept(t *testing.T, w *world) {
	t.Helper()
	w.plan(t, task{ID: "a", Title: "A", Steps: []string{
		`echo said; tree=$(printf '100644 blob %s\t.git\n' $(git hash-object -w /etc/hostname) | git mktree) && git branch bad $(git commit-tree -m bad -p HEAD $tree)`,
	}})
	w.ralph(t, "build", "-n", "1").expect(t, 10)
	name := w.sandbox(t).Name
	for _, args := range [][]string{{"clean", "--force"}, {"--recreate", "shell", "--", "true"}} {
		res := w.ralph(t, args...).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `"refs/heads/bad" cannot be fetched: `))
		assert.Check(t, is.Contains(res.stderr, `Hint: discard them with "docker ralph clean --discard-commits `+name))
	}
	assert.Equal(t, w.sandbox(t).Name, name)
	assert.Equal(t, w.statuses(t)["a"], "open", "it still works")

	w.ralph(t, "clean", "--force", "--discard-commits").expect(t, 0)
	assert.Equal(t, len(w.sandboxes(t)), 0)
	assert.Check(t, is.Contains(w.ok(t, "logs"), "said"))
}
