//go:build unix

package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest/engines"
)

// gateway is an endpoint of the user's own. It writes down which paths were asked
// for with which key.
type gateway struct {
	mu    sync.Mutex
	asked []string
}

func (g *gateway) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
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
