//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// completes returns what is offered behind "docker ralph".
func (w *world) completes(t *testing.T, args ...string) []string {
	t.Helper()
	res := run(t, w.docker(append([]string{"__complete", "ralph"}, args...)...)).expect(t, 0)
	offered, directive, found := strings.Cut(res.stdout, ":4\n")
	assert.Assert(t, found && directive == "", res.stdout)
	return strings.Fields(strings.ReplaceAll(strings.ReplaceAll(offered, " ", "_"), "\t", "="))
}

// offers waits until exactly this is offered: completion that takes longer than a
// user would wait offers nothing, and the machine may be busy.
func (w *world) offers(t *testing.T, want []string, args ...string) {
	t.Helper()
	eventually(t, func() error {
		if offered := w.completes(t, args...); !slices.Equal(offered, want) {
			return fmt.Errorf("%q is offered behind %q, not %q", offered, args, want)
		}
		return nil
	})
}

// The IDs of tasks come from a sandbox that runs, or from nowhere.
func TestTasksAreCompleted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.byDefault()
		assert.DeepEqual(t, w.completes(t, "task", "show", ""), []string{})
		assert.Equal(t, len(w.listed(t)), 0, "a sandbox was made")

		w.plan(t, task{ID: "auth/01", Title: "Don't `log` $(id)"}, task{ID: "auth/02", Title: "Log in"}, task{ID: "x$(touch pwned)", Title: "Bad"})
		w.ok(t, "task", "claim", "auth/02", "--agent", "me")
		w.offers(t, []string{"auth/01=Don’t_·log·_·(id)", "auth/02=Log_in"}, "task", "show", "")
		w.offers(t, []string{"auth/02=Log_in"}, "task", "show", "auth/02")
		w.offers(t, []string{"auth/01=Don’t_·log·_·(id)"}, "task", "claim", "")
		w.offers(t, []string{"auth/02=Log_in"}, "task", "done", "")
		w.offers(t, []string{"auth/02=Log_in"}, "task", "block", "auth/01", "--by", "")
		assert.DeepEqual(t, w.completes(t, "--worktree=other", "task", "show", ""), []string{})
		assert.Check(t, !strings.Contains(w.git(t, "worktree", "list"), ".worktrees"), "a worktree was made")

		w.ok(t, "stop")
		assert.DeepEqual(t, w.completes(t, "task", "show", ""), []string{})
		assert.Check(t, is.Equal(w.listed(t)[0].State, "stopped"), "the sandbox was started")
	})
}

// Each worktree has tasks of its own.
func TestTasksOfAWorktreeAreCompleted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "here", "Here")
		w.ok(t, "--worktree=other", "task", "create", "there", "There")
		w.offers(t, []string{"here=Here"}, "task", "show", "")
		w.offers(t, []string{"there=There"}, "--worktree=other", "task", "show", "")
		assert.DeepEqual(t, w.completes(t, "--driver", "sbx", "task", "show", ""), []string{})
		assert.DeepEqual(t, w.completes(t, "--worktree", "task", "show", ""), []string{})
		assert.DeepEqual(t, w.completes(t, "--driver", "container", "task", "show", "t"), []string{})
	})
}
