//go:build unix

package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire"
)

// A loop stops after its current run, and says so while that works, once the user has to decide on
// its commits: those of more agents would have to be merged or looked at as well.
func TestLoopStopsForTheUser(t *testing.T) {
	for name, tc := range map[string]struct {
		flags  []string
		commit string // by the agent
		by     bool   // the user commits
		why    string
	}{
		"diverged": {by: true, commit: "echo a > a.txt", why: "your branch and the sandbox's have diverged"},
		"secret": {
			flags: []string{"--cred-scan"}, why: "were held back",
			commit: "printf 'key = AKIA%s\\n' QYLPMN5HHHFPZAM2 > a.env && git add a.env && git commit -qm leak",
		},
	} {
		t.Run(name, func(t *testing.T) {
			withClone(t, func(t *testing.T, w *world) {
				gate := func(id string) string {
					return fmt.Sprintf("touch .ralph/begun-%[1]s; while ! test -e .ralph/go-%[1]s; do sleep 0.1; done", id)
				}
				w.plan(t,
					task{ID: "a", Title: "Add a", Steps: []string{gate("a"), tc.commit}},
					task{ID: "b", Title: "Add b", Steps: []string{gate("b"), "echo b > b.txt"}},
					task{ID: "c", Title: "Add c", Steps: []string{"echo c > c.txt"}},
				)
				build := w.terminal(t, w.docker(append(append([]string{"ralph"}, tc.flags...), "build")...))
				waitForFile(t, w.pathInside(t, ".ralph/begun-a"))
				if tc.by {
					w.write(t, filepath.Join(w.repo, "user.txt"), "u\n")
					w.git(t, "add", "user.txt")
					w.git(t, "commit", "-qm", "The user's")
				}
				w.write(t, w.pathInside(t, ".ralph/go-a"), "")

				build.screen.WaitFor(t, "the loop stops after its current run")
				waitForFile(t, w.pathInside(t, ".ralph/begun-b"))
				assert.Check(t, is.Contains(w.ok(t, "status"), tc.why))
				w.write(t, w.pathInside(t, ".ralph/go-b"), "")
				if !tc.by {
					build.screen.WaitFor(t, "They would come into your repository. Fetch them?")
					build.press(t, "n\r")
				}
				build.wait(t).expect(t, wire.ExitUnmerged)

				assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done", "c": "open"})
				shown := w.ok(t, "status")
				assert.Check(t, is.Contains(shown, "unmerged"))
				assert.Check(t, is.Contains(shown, tc.why))
			})
		})
	}
}
