//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"
)

// The secret scan of the worktree before an agent sees it.

func TestSecretScanOfTheWorktree(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		key := "AKIA" + "QYLPMN5HHHFPZAM2" // in two parts, or this file would be found
		w.write(t, filepath.Join(w.repo, "deploy.env"), "# ours\nAWS_KEY="+key+"\n")
		w.write(t, filepath.Join(w.repo, ".gitleaks.toml"), "[allowlist]\npaths = [\".*\"]\n")
		w.plan(t, task{ID: "a", Title: "Do it", Steps: []string{"touch begun"}})

		res := w.ralph(t, "--cred-scan", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Warning: possible secrets in the worktree:\n  deploy.env:2: aws-access-token\n"))
		assert.Check(t, is.Contains(res.stderr, "Error: possible secrets in the worktree"))
		assert.Check(t, !strings.Contains(res.stdout+res.stderr, key))
		assert.Equal(t, w.statuses(t)["a"], "open")

		no := w.terminal(t, w.docker("ralph", "--cred-scan", "build"))
		no.screen.WaitFor(t, "The agent would see them. Continue?")
		no.press(t, "n\r")
		no.wait(t).expect(t, 1)
		assert.Equal(t, w.statuses(t)["a"], "open")

		res = w.ralph(t, "--cred-scan=warn", "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "deploy.env:2: aws-access-token"))
		assert.Equal(t, w.statuses(t)["a"], "done")

		w.ralph(t, "--cred-scan=loud", "build").expect(t, 125)
	})
}

// Commits with credentials stay in the sandbox until the user takes them.
func TestSecretScanOfTheAgentsCommits(t *testing.T) {
	andRemote(t, withClone, func(t *testing.T, w *world) {
		key := "AKIA" + "QYLPMN5HHHFPZAM2"
		before := w.git(t, "rev-parse", "HEAD")
		w.plan(t, task{ID: "a", Title: "Leak", Steps: []string{
			"printf 'one\\nkey = AKIA%s\\n' QYLPMN5HHHFPZAM2 > deploy.env && git add deploy.env && git commit -qm leak",
			"git rm -q deploy.env && git commit -qm unleak",
		}})
		const found = " deploy.env:2: aws-access-token"
		stays := func() {
			t.Helper()
			assert.Equal(t, w.git(t, "rev-parse", "main"), before)
			assert.Equal(t, w.git(t, "rev-list", "--all", "--count", "--not", before), "0")
			assert.Check(t, !strings.Contains(w.git(t, "cat-file", "--batch-check", "--batch-all-objects", "--unordered"), "tmp_objdir"))
			assert.NilError(t, noFileHolds(filepath.Join(w.config, "ralph"), key))
		}
		res := w.ralph(t, "--cred-scan", "build", "-n", "1")
		assert.Check(t, res.code != 0, "%+v", res)
		assert.Check(t, is.Contains(res.stdout+res.stderr, "the commits of the run were refused: the commits may contain secrets"))
		assert.Check(t, is.Contains(res.stdout+res.stderr, found))
		assert.Check(t, !strings.Contains(res.stdout+res.stderr, key))
		assert.Equal(t, w.statuses(t)["a"], "open")
		stays()
		w.ok(t, "shell", "--", "true")
		stays()

		// Those of another command are held back: nothing takes them by the way, and no agent is started before.
		leak := "printf 'one\\nkey = AKIA%s\\n' QYLPMN5HHHFPZAM2 > deploy.env && git add deploy.env && git commit -qm leak; git rm -q deploy.env && git commit -qm unleak"
		res = w.ralph(t, "--cred-scan", "shell", "--", "sh", "-c", leak).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Warning: possible secrets in the sandbox's new commits:\n"))
		assert.Check(t, is.Contains(res.stderr, found+"\n"))
		assert.Check(t, is.Contains(res.stderr, "were held back"))
		stays()
		objects := w.git(t, "count-objects", "-v")
		w.ok(t, "task", "delete", "a")
		w.plan(t, task{ID: "b", Title: "Begin", Steps: []string{"touch begun"}})
		w.ralph(t, "build").expect(t, 1)
		w.ralph(t, "--recreate", "shell", "--", "true").expect(t, 1)
		no := w.terminal(t, w.docker("ralph", "--cred-scan", "build"))
		no.screen.WaitFor(t, "They would come into your repository. Fetch them?")
		no.press(t, "n\r")
		no.wait(t).expect(t, 1)
		assert.Equal(t, w.statuses(t)["b"], "open")
		stays()
		assert.Equal(t, w.git(t, "count-objects", "-v"), objects)

		res = w.ralph(t, "--cred-scan=warn", "shell", "--", "true").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, found))
		assert.Equal(t, w.git(t, "rev-list", "--count", before+"..main"), "2", res.stderr)
		res = w.ralph(t, "--cred-scan", "build").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, "may be credentials"), "what is in the repository is not new")
	})
}

// scannerless has the engine hide the scanner's image, and refuse to pull it, while
// hide is set.
func (w *world) scannerless(t *testing.T) (hide *atomic.Bool) {
	t.Helper()
	hide = &atomic.Bool{}
	w.refusing(t, func(r *http.Request) (int, string) {
		switch asked := r.URL.Path + "?" + r.URL.RawQuery; {
		case !hide.Load() || !strings.Contains(asked, "gitleaks"):
			return 0, ""
		case r.Method == http.MethodGet:
			return http.StatusNotFound, "No such image"
		}
		return http.StatusInternalServerError, "the registry is out of reach"
	})
	return hide
}

// A scan that cannot run blocks: before an agent starts, and before its commits come out, for which a loop waits.
func TestFailedSecretScanBlocks(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		hide := w.scannerless(t)
		w.plan(t, task{ID: "a", Title: "Commit", Steps: []string{
			"touch begun; until [ -e go ]; do sleep 0.1; done", "date >made && git add made && git commit -qm made",
		}})
		hide.Store(true)
		res := w.ralph(t, "--cred-scan", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "is not on the engine and cannot be pulled: "))
		assert.Check(t, is.Contains(res.stderr, "\nHint: pull the scanner with \"docker pull ghcr.io/gitleaks/"))
		assert.Equal(t, w.statuses(t)["a"], "open", "no agent was started")

		before := w.git(t, "rev-parse", "HEAD")
		hide.Store(false)
		done := make(chan result, 1)
		go func() { done <- w.ralph(t, "--cred-scan", "build", "-n", "1") }()
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if _, err := os.Stat(w.pathInside(t, "begun")); err != nil {
				return poll.Continue("the agent has not begun")
			}
			return poll.Success()
		}, poll.WithTimeout(timeout))
		hide.Store(true)
		w.write(t, w.pathInside(t, "go"), "")
		eventually(t, func() error {
			if status := w.ok(t, "status"); !strings.Contains(status, "cannot take the commits of the run") {
				return fmt.Errorf("status: %s", status)
			}
			return nil
		})
		assert.Equal(t, w.git(t, "rev-parse", "HEAD"), before)
		hide.Store(false)
		(<-done).expect(t, 0)
		assert.Check(t, is.Contains(w.git(t, "log", "--format=%s", before+".."), "made"))
		assert.Equal(t, w.statuses(t)["a"], "done")
	})
}

// A scan that only warns lets commits pass, and so does a confirmation, which a loop does not ask for.
func TestSecretScanOfMergedCommits(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		leak := func(name string) string {
			return "printf 'key = AKIA%s\\n' QYLPMN5HHHFPZAM2 > " + name + " && git add " + name + " && git commit -qm leak; git rm -q " + name + "; git commit -qm gone"
		}
		w.plan(t, task{ID: "a", Title: "Leak", Steps: []string{leak("a.env")}})
		res := w.ralph(t, "--cred-scan=warn", "build", "-n", "1").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, " a.env:1: aws-access-token\n"))
		assert.Equal(t, w.git(t, "log", "-2", "--format=%s"), "gone\nleak")

		yes := w.terminal(t, w.docker("ralph", "--cred-scan", "shell", "--", "sh", "-c", leak("b.env")))
		yes.screen.WaitFor(t, "They would come into your repository. Fetch them?")
		yes.press(t, "y\r")
		yes.wait(t).expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-4", "--format=%s"), "gone\nleak\ngone\nleak")
	})
}
