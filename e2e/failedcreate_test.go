//go:build unix

package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// brokenEngine loses the answer to one request that changes something on the engine, and refuses all
// after it.
type brokenEngine struct {
	mu   sync.Mutex
	made int    // requests since the last call of breakAt
	nth  int    // the one whose answer is lost, from 1; 0 for none
	lost string // that request, once it was made
}

func (e *brokenEngine) breakAt(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made, e.nth, e.lost = 0, n, ""
}

// repair returns the request whose answer was lost; empty for none.
func (e *brokenEngine) repair() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nth = 0
	return e.lost
}

// refuse is for [world.refusing].
func (e *brokenEngine) refuse(r *http.Request) (int, string) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return 0, ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made++
	switch {
	case e.nth == 0 || e.made < e.nth:
		return 0, ""
	case e.made == e.nth:
		e.lost = r.Method + " " + r.URL.Path
		return unanswered, ""
	}
	return http.StatusInternalServerError, "out of order"
}

// Whatever step of a creation fails, and although nothing can be undone then, the next command works
// with the other kind of workspace. It needs no --recreate unless a command may have run.
func TestFailedCreationBlocksNothing(t *testing.T) {
	onlyInMatrix(t)
	onEngines(t, func(t *testing.T, w *world) {
		w.useDefaults()
		engine := &brokenEngine{}
		w.refusing(t, engine.refuse)
		for n := 1; ; n++ {
			engine.breakAt(n)
			res := w.ralph(t, "--workspace", []string{"live", "clone"}[n%2], "shell", "--", "true")
			step := engine.repair()
			if step == "" {
				res.expect(t, 0)
				break
			}
			assert.Check(t, is.Contains(res.stderr, "Error: "), step)
			next := []string{"--workspace", []string{"clone", "live"}[n%2], "shell", "--", "true"}
			res = w.ralph(t, next...)
			if strings.HasPrefix(step, "POST ") && strings.Contains(step, "/exec/") && res.code != 0 {
				assert.Check(t, is.Contains(res.stderr, "Hint: recreate it with --recreate"), step)
				res = w.ralph(t, append([]string{"--recreate"}, next...)...)
			}
			assert.Check(t, is.Equal(res.code, 0), "%s: %s", step, res.stderr)
			w.ok(t, "clean", "--force", "--all")
		}
	})
}
