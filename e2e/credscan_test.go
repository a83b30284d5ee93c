//go:build unix

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestCredentialsAreFoundBeforeTheAgentSeesThem(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		key := "AKIA" + "QYLPMN5HHHFPZAM2" // in two parts, or this file would be found
		w.write(t, filepath.Join(w.repo, "deploy.env"), "# ours\nAWS_KEY="+key+"\n")
		w.write(t, filepath.Join(w.repo, ".gitleaks.toml"), "[allowlist]\npaths = [\".*\"]\n")
		w.plan(t, task{ID: "a", Title: "Do it", Steps: []string{"touch begun"}})

		res := w.ralph(t, "--cred-scan", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Warning: what may be credentials in the work tree:\n  deploy.env:2: aws-access-token\n"))
		assert.Check(t, is.Contains(res.stderr, "Error: the agent would see what may be credentials"))
		assert.Check(t, !strings.Contains(res.stdout+res.stderr, key))
		assert.Equal(t, w.statuses(t)["a"], "open")

		no := w.terminal(t, w.docker("ralph", "--cred-scan", "build"))
		no.screen.waitFor(t, "The agent would see them. Go on?")
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
func TestCredentialsInTheAgentsCommits(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		key := "AKIA" + "QYLPMN5HHHFPZAM2"
		before := w.git(t, "rev-parse", "HEAD")
		w.plan(t, task{ID: "a", Title: "Leak", Steps: []string{
			"printf 'one\\nkey = AKIA%s\\n' QYLPMN5HHHFPZAM2 > deploy.env && git add deploy.env && git commit -qm leak",
			"git rm -q deploy.env && git commit -qm unleak",
		}})
		const found = " deploy.env:2: aws-access-token\n"
		stays := func() {
			t.Helper()
			assert.Equal(t, w.git(t, "rev-parse", "main"), before)
			assert.Equal(t, w.git(t, "rev-list", "--all", "--count", "--not", before), "0")
			assert.Check(t, !strings.Contains(w.git(t, "cat-file", "--batch-check", "--batch-all-objects", "--unordered"), "tmp_objdir"))
			assert.NilError(t, noFileHolds(filepath.Join(w.config, "ralph"), key))
		}
		res := w.ralph(t, "--cred-scan", "build", "-n", "1").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Warning: what may be credentials in the sandbox's new commits:\n"))
		assert.Check(t, is.Contains(res.stderr, found))
		assert.Check(t, is.Contains(res.stderr, "were held back"))
		assert.Check(t, !strings.Contains(res.stdout+res.stderr, key))
		stays()
		objects := w.git(t, "count-objects", "-v")

		// Nothing takes them by the way, and no other agent is started before.
		res = w.ralph(t, "task", "list").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: the new commits of the sandbox "))
		w.plan(t, task{ID: "b", Title: "Begin", Steps: []string{"touch begun"}})
		w.ralph(t, "build").expect(t, 1)
		w.ralph(t, "--recreate", "task", "list").expect(t, 1)
		no := w.terminal(t, w.docker("ralph", "--cred-scan", "build"))
		no.screen.waitFor(t, "They would come into your repository. Take them?")
		no.press(t, "n\r")
		no.wait(t).expect(t, 1)
		assert.Equal(t, w.statuses(t)["b"], "open")
		stays()
		assert.Equal(t, w.git(t, "count-objects", "-v"), objects)

		res = w.ralph(t, "--cred-scan=warn", "task", "list").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, found))
		assert.Equal(t, w.git(t, "rev-list", "--count", before+"..main"), "2", res.stderr)
		res = w.ralph(t, "--cred-scan", "build").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, "may be credentials"), "what is in the repository is not new")
	})
}

// The user's word is enough, and so is a scan that only warns.
func TestCredentialsInCommitsThatTheUserTakes(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		steps := func(name string) []string {
			return []string{"printf 'key = AKIA%s\\n' QYLPMN5HHHFPZAM2 > " + name + " && git add " + name + " && git commit -qm leak; git rm -q " + name + "; git commit -qm gone"}
		}
		w.plan(t, task{ID: "a", Title: "Leak", Steps: steps("a.env")})
		res := w.ralph(t, "--cred-scan=warn", "build", "-n", "1").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, " a.env:1: aws-access-token\n"))
		assert.Equal(t, w.git(t, "log", "-2", "--format=%s"), "gone\nleak")

		w.plan(t, task{ID: "b", Title: "Leak", Steps: steps("b.env")})
		yes := w.terminal(t, w.docker("ralph", "--cred-scan", "build", "-n", "1"))
		yes.screen.waitFor(t, "They would come into your repository. Take them?")
		yes.press(t, "y\r")
		yes.wait(t).expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-4", "--format=%s"), "gone\nleak\ngone\nleak")
	})
}
