package dashboard

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/watch"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// An agent writes the log: lists of empty values that are much larger in memory, and characters that
// are much longer in JSON.
func TestReportIsBounded(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	l := d.newLog("main", time.Now().Add(-time.Hour))
	l.emit(0, &runlog.LoopStart{Mode: "build"})
	checks := `{"time":"2031-02-03T04:05:06Z","type":"run.end","n":1,"checks":[` + strings.Repeat("{},", 100_000) + `{}]}`
	for range 16 {
		l.events = append(l.events, checks)
	}
	for n := range 60 {
		l.emit(0, &runlog.RunStart{N: n + 1})
		l.output(n+1, strings.Repeat("<", maxReportOutput))
	}
	l.save(runlog.Now{})
	var out, warnings bytes.Buffer
	d.host.Stdout, d.host.Stderr = &out, &warnings
	assert.NilError(t, Report(t.Context(), d.host, ReportOptions{File: "-"}))
	assert.Check(t, out.Len() < maxReport+1<<20, out.Len())
	assert.Check(t, is.Contains(out.String(), `"omitted":true`))
	assert.Check(t, is.Contains(warnings.String(), "older events of loop "+l.loop.ID+" are left out of the report (limits: 4 MiB per loop, 16 MiB in total)"))

	reader, err := watch.Worktree{Root: d.root}.Open(watch.Loop{ID: l.loop.ID})
	assert.NilError(t, err)
	defer reader.Close()
	events, cut, err := reader.NewestEvents(maxEvents)
	assert.NilError(t, err)
	assert.Check(t, cut && len(events) < 16+60, "%v, %d", cut, len(events))
	assert.Check(t, is.DeepEqual(watch.Runs(events)[0], 60))
}
