package loop

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// wrote is what claude prints of a call and its result.
func wrote(tool, id string, failed bool) string {
	result := `"content":"ok"`
	if failed {
		result = `"is_error":true,"content":"EACCES: permission denied"`
	}
	return `echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"` + id + `","name":"` + tool + `","input":{"file_path":"a.go"}}]}}';
		echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"` + id + `",` + result + `}]}}';`
}

func TestDoneAfterAFailedWriteIsReported(t *testing.T) {
	const warning = "done without a commit, although a tool call failed: Write a.go: EACCES: permission denied\n"
	for name, tc := range map[string]struct {
		script string
		warns  bool
	}{
		"failed":        {wrote("Write", "1", true), true},
		"committed":     {wrote("Write", "1", true) + "touch $DIR/committed;", false},
		"repaired":      {wrote("Write", "1", true) + wrote("Write", "2", false), false},
		"other tool":    {wrote("Bash", "1", true), false},
		"failed before": {wrote("Edit", "1", false) + wrote("Write", "2", true), true},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newFileLoop(t, "", newFileBacklog(t, "a"))
			tr.Agent = script(tc.script + `touch $BACKLOG/a; echo '{"type":"result","num_turns":2,"result":"Done."}'`)
			tr.Head = func(context.Context) string {
				if _, err := os.Stat(filepath.Join(tr.dir(), "committed")); err == nil {
					return "2222222"
				}
				return "1111111"
			}
			_, err := Run(t.Context(), tr.Options)
			assert.NilError(t, err)
			assert.Equal(t, strings.Contains(tr.errs.String(), warning), tc.warns, tr.errs.String())
			assert.Equal(t, strings.Contains(tr.out.String(), "   ✗ EACCES: permission denied\n"), strings.Contains(tc.script, "is_error"))
		})
	}
}
