package commits

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

func TestReceiptsAreNotes(t *testing.T) {
	l := newLooping(t)
	tip := l.ended.git(t, "rev-parse", "main")
	AddNotes(t.Context(), l.h, l.wt, []taskjson.Receipt{{Task: "none"}, {Task: "a", Commit: tip}, {Task: "b", Commit: tip}})
	AddNotes(t.Context(), l.h, l.wt, []taskjson.Receipt{{Task: "c", Commit: tip, Run: 2}})
	assert.Equal(t, l.stderr.String(), "")

	var tasks []string
	for line := range strings.Lines(l.ended.git(t, "notes", "--ref=ralph", "show", tip)) {
		var r taskjson.Receipt
		assert.NilError(t, json.Unmarshal([]byte(line), &r))
		assert.Equal(t, r.Commit, tip)
		tasks = append(tasks, r.Task)
	}
	assert.DeepEqual(t, tasks, []string{"a", "b", "c"})

	assert.NilError(t, os.WriteFile(filepath.Join(l.wt.GitDir, "refs", "notes", "ralph.lock"), nil, 0o600))
	AddNotes(t.Context(), l.h, l.wt, []taskjson.Receipt{{Task: "a", Commit: tip}})
	assert.Assert(t, is.Contains(l.stderr.String(), "Warning: adding receipts as git notes: adding a note to "+tip[:10]))
}
