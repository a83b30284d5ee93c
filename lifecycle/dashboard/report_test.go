package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
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

	reader, err := watch.Worktree{Logs: d.logs("main")}.Open(watch.Loop{ID: l.loop.ID})
	assert.NilError(t, err)
	defer reader.Close()
	events, cut, err := reader.NewestEvents(maxEvents)
	assert.NilError(t, err)
	assert.Check(t, cut && len(events) < 16+60, "%v, %d", cut, len(events))
	assert.Check(t, is.DeepEqual(watch.Runs(events)[0], 60))
}

// Outputs that take no space on a disk are terabytes to read.
func TestSparseOutputsAreNotRead(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	l := d.newLog("main", time.Now().Add(-time.Hour))
	for n := range 4 * maxReportRuns {
		l.emit(0, &runlog.RunStart{N: n + 1})
	}
	l.save(runlog.Now{})
	reader, err := watch.Worktree{Logs: d.logs("main")}.Open(watch.Loop{ID: l.loop.ID})
	assert.NilError(t, err)
	defer reader.Close()
	for n := range 4 * maxReportRuns {
		f, err := os.Create(filepath.Join(d.logs("main"), l.loop.ID, fmt.Sprintf("%d.log", n+1)))
		assert.NilError(t, err)
		assert.NilError(t, f.Truncate(1<<40))
		assert.NilError(t, f.Close())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	d.host.Stdout, d.host.Stderr = &out, io.Discard
	assert.NilError(t, Report(ctx, d.host, ReportOptions{File: "-"}))
	assert.Check(t, is.Contains(out.String(), `"omitted":true`))
	events, _, err := reader.NewestEvents(maxEvents)
	assert.NilError(t, err)
	found, err := reader.Search(ctx, "text", watch.Runs(events), 10)
	assert.NilError(t, err)
	assert.Check(t, is.Len(found, 0))
	assert.NilError(t, ctx.Err())
}

// A silent engine takes long to be given up: it is asked once for all loops of a report, and not before each answer
// of the server.
func TestSlowEngineIsAskedOnce(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	for n := range 3 {
		l := d.newLog("main", time.Now().Add(-time.Duration(n+1)*time.Hour))
		l.emit(0, &runlog.LoopStart{Mode: "build"})
		l.save(runlog.Now{})
	}
	var out bytes.Buffer
	d.host.Stdout, d.host.Stderr = &out, io.Discard
	s, asked := d.source(), 0
	collect := s.collect
	s.collect = func(ctx context.Context, h host.Host, opts watch.Options) (watch.State, error) {
		asked++
		state, err := collect(ctx, h, opts)
		state.Time = state.Time.Add(-10 * time.Second) // when the engine was asked
		return state, err
	}
	assert.NilError(t, s.writeReport(t.Context(), "-"))
	assert.Equal(t, asked, 1)
	s.at = time.Now().Add(time.Hour) // no matter how long the report took
	_, err := s.State(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, asked, 1)
	s.at = time.Time{}
	_, err = s.State(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, asked, 2)
}
