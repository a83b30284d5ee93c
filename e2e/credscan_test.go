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
