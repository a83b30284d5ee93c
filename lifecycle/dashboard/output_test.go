package dashboard

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// A run that has printed nothing yet replaces the output of the run before.
func TestStreamSendsTheOutputOfASilentRun(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.fill()
	s := d.source()
	now, err := json.Marshal(runlog.Now{N: 11})
	assert.NilError(t, err)
	var runs []int
	events(t, s, loopKey(t, s), func(name, data string) bool {
		if name != "output" {
			return false
		}
		var out output
		assert.NilError(t, json.Unmarshal([]byte(data), &out))
		if runs = append(runs, out.Run); len(runs) == 1 {
			d.write(filepath.Join(d.logs("main"), d.running, "now.json"), string(now))
		}
		return out.Run == 11 && out.Text == ""
	})
	assert.DeepEqual(t, runs, []int{10, 11})
}
