//go:build unix

package e2e

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// One setting has the sandbox and the proxy's own connections trust a company's certificates.
func TestCompanyCertificates(t *testing.T) {
	andRemote(t, withClone, func(t *testing.T, w *world) {
		token := "ghp-of-a-company"
		w.hostRepository(t, token)
		company := filepath.Join(w.dir, "authority.pem")
		w.setenv("SSL_CERT_FILE", "")
		w.write(t, filepath.Join(w.dir, "stored"), "https://una:"+token+"@"+gitHost+"\n")
		w.git(t, "config", "--global", "credential.helper", "store --file="+filepath.Join(w.dir, "stored"))
		w.useDefaults()
		w.setenv("RALPH_ALLOW", gitHost)
		ask := func(id string) task {
			return task{ID: id, Title: "Ask the git host: " + id, Steps: []string{
				"git ls-remote https://" + gitHost + "/none.git >by-agent 2>&1; true",
				"git ls-remote origin refs/heads/feature >by-proxy 2>&1; true",
			}}
		}

		w.plan(t, ask("without"))
		w.ralph(t, "--git-token", "read", "build", "-n", "1").expect(t, 0)
		assert.Check(t, is.Contains(w.read(t, "by-agent"), "certificate verification failed"))
		assert.Check(t, is.Contains(w.read(t, "by-proxy"), "502"))

		w.setenv("RALPH_CA", filepath.Join(w.dir, "none.pem"))
		res := w.ralph(t, "--recreate", "build", "-n", "1").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: invalid RALPH_CA="))
		assert.Check(t, is.Contains(res.stderr, "none.pem: no such file"))

		w.setenv("RALPH_CA", company)
		w.plan(t, ask("with"))
		res = w.ralph(t, "--recreate", "--git-token", "read", "build", "-n", "1").expect(t, 0)
		assert.Check(t, is.Contains(w.read(t, "by-agent"), "could not read Username"), res.stderr)
		assert.Check(t, is.Contains(w.read(t, "by-proxy"), "refs/heads/feature"), res.stderr)
	})
}
