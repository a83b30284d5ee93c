package gitsync

import (
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

func TestNotesAreAdded(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	wt, err := gitrepo.Detect(t.Context(), w.root, func(name string) string {
		return map[string]string{"RALPH_SCOPE_REPO": "acme/shop"}[name]
	})
	assert.NilError(t, err)
	w.git("config", "core.notesRef", "refs/notes/others")
	tip := w.tip("main")
	var done sync.WaitGroup
	for _, line := range []string{"one", "two", "three"} {
		done.Go(func() { assert.Check(t, AddNote(t.Context(), wt, w.repo.stateDir, tip, line+"\n")) })
	}
	done.Wait()
	lines := strings.Split(w.git("notes", "--ref=refs/notes/ralph", "show", tip), "\n")
	assert.Equal(t, len(lines), 3, lines)
	assert.Equal(t, w.tip("main"), tip)
	w.assertClean()

	w.write(".git/refs/notes/ralph.lock", "")
	err = AddNote(t.Context(), wt, w.repo.stateDir, tip, "x\n")
	assert.ErrorContains(t, err, "adding a note to "+tip[:10]+": git notes: ")
}
