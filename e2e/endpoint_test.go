//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// gateway is an endpoint of the user's own. It writes down which paths were asked
// for with which key.
type gateway struct {
	mu    sync.Mutex
	asked []string
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Header.Get("X-Api-Key") == "sk-revoked" {
		w.WriteHeader(http.StatusUnauthorized)
	}
	g.asked = append(g.asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Api-Key"))
}

func (g *gateway) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.asked
	g.asked = nil
	return asked
}

// ask posts to paths of the agent's endpoint, and prints the status of each.
const ask = `for path; do perl -MHTTP::Tiny -e 'print HTTP::Tiny->new(timeout => 20)->post("$ENV{ANTHROPIC_BASE_URL}$ARGV[0]", {content => "x"})->{status}, "\n"' "$path"; done`

// An endpoint at a private address that is passed by name is the same as one that is
// only set: the key stays outside, and is used for the agent's paths alone.
func TestEndpointPassedByName(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		own := &gateway{}
		w.setenv("ANTHROPIC_BASE_URL", w.serve(t, own)+"/claude")
		w.setenv("ANTHROPIC_API_KEY", "sk-own")
		w.setenv("RALPH_NETWORK", "allowlist")
		w.setenv("RALPH_AGENT", "claude")
		w.setenv("RALPH_IMAGE", engines.BaseImage())
		command := []string{"shell", "--", "sh", "-c", ask + `; env | grep -c sk-own`, "sh", "/v1/messages", "/key/generate"}

		for _, named := range []string{"", "ANTHROPIC_BASE_URL"} {
			w.setenv("RALPH_DOCKER_ENV", named)
			res := w.ralph(t, command...)
			assert.Equal(t, res.stdout, "200\n403\n0\n", res.stderr)
			assert.DeepEqual(t, own.take(), []string{"POST /claude/v1/messages sk-own"})
		}

		w.setenv("RALPH_ENDPOINT_PATHS", "/key")
		assert.Equal(t, w.ralph(t, command...).stdout, "200\n200\n0\n")
		assert.DeepEqual(t, own.take(), []string{"POST /claude/v1/messages sk-own", "POST /claude/key/generate sk-own"})

		w.setenv("RALPH_NETWORK", "allow-all")
		res := w.ralph(t, append([]string{"--recreate"}, command...)...).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `Error: ANTHROPIC_BASE_URL names an address that the network policy "allow-all" blocks`))
		assert.Check(t, strings.Contains(res.stderr, "Hint: use --network allowlist"), res.stderr)
		assert.Equal(t, len(own.take()), 0)
	})
}

// A key is used for the command that was given it. Later commands that have none, or
// an empty one, get nothing by way of the one before.
func TestAnEarlierKeyIsNotUsed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		own := &gateway{}
		url := w.serve(t, own)
		w.setenv("RALPH_NETWORK", "allowlist")
		w.setenv("RALPH_AGENT", "claude")
		w.setenv("RALPH_IMAGE", engines.BaseImage())
		set := func(key, endpoint string) {
			w.setenv("ANTHROPIC_API_KEY", key)
			w.setenv("ANTHROPIC_BASE_URL", endpoint)
		}
		set("sk-own", url)
		base := strings.TrimSpace(w.ok(t, "shell", "--", "sh", "-c", `echo "$ANTHROPIC_BASE_URL"; exec >/dev/null; `+ask, "sh", "/v1/messages"))
		assert.DeepEqual(t, own.take(), []string{"POST /v1/messages sk-own"})

		set("", url) // an endpoint of the user's own may need none
		w.ok(t, "shell", "--", "sh", "-c", ask, "sh", "/v1/messages")
		assert.DeepEqual(t, own.take(), []string{"POST /v1/messages "})

		set("sk-own", url)
		w.ok(t, "shell", "--", "true")
		set("", "")
		w.ok(t, "shell", "--", "sh", "-c", "export ANTHROPIC_BASE_URL="+base+"; "+ask, "sh", "/v1/messages")
		assert.Equal(t, len(own.take()), 0)
	})
}

// A missing key is said before the first run, a refused one while the agent tries
// again, and an endpoint that is not there likewise, each with the variable.
func TestModelFailuresAreReportedAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		own := &gateway{}
		url := w.serve(t, own)
		// Like agents it says nothing of what went wrong, and goes on for long.
		image := w.imageWith(t, "/usr/local/bin/claude", "#!/bin/sh\nset -- /v1/messages\n"+ask+" >/dev/null\nwhile ! test -e .ralph/go; do sleep 0.05; done\nexit 1\n")
		w.setenv("RALPH_NETWORK", "allowlist")
		w.setenv("RALPH_AGENT", "claude")
		w.setenv("RALPH_IMAGE", image)
		w.ok(t, "task", "create", "a", "Add it")
		for _, tc := range []struct{ key, endpoint, want string }{
			{"", "", "Warning: claude has no key: ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN is not set\nHint: "},
			{"sk-revoked", url, " refused the key in ANTHROPIC_API_KEY: it answered 401 Unauthorized\nHint: check ANTHROPIC_API_KEY\n"},
			{"sk-own", "http://" + w.engine.Gateway + ":9", " connection refused\nHint: check ANTHROPIC_BASE_URL\n"},
		} {
			assert.NilError(t, os.RemoveAll(filepath.Join(w.repo, ".ralph", "go")))
			w.setenv("ANTHROPIC_API_KEY", tc.key)
			w.setenv("ANTHROPIC_BASE_URL", tc.endpoint)
			build := start(t, w.docker("ralph", "build", "-n", "1"))
			eventually(t, func() error {
				if said := build.stderr.String(); !strings.Contains(said, tc.want) {
					return fmt.Errorf("%q is not in %q", tc.want, said)
				}
				return nil
			})
			w.write(t, filepath.Join(w.repo, ".ralph", "go"), "")
			said := build.wait(t).stderr
			assert.Equal(t, strings.Count(said, tc.want), 1, said)
		}
	})
}
