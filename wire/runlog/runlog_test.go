package runlog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/event"
)

func newLoop(started time.Time) Loop {
	return Loop{Mode: "build", Repo: "acme/shop", Branch: "main", Agent: "claude", Started: started}
}

func create(t *testing.T, top string, started time.Time) *Log {
	t.Helper()
	l, err := Create(top, newLoop(started))
	assert.NilError(t, err)
	return l
}

var noon = time.Date(2031, 2, 3, 12, 0, 0, 0, time.UTC)

func notAlive(string) bool { return false }

func TestResumeContinuesTheNewestLoop(t *testing.T) {
	top := t.TempDir()
	cost := 0.5
	for i, at := range []time.Time{noon, noon.Add(time.Hour)} {
		l := create(t, top, at)
		assert.NilError(t, l.Append(Iteration{N: i + 1, Tasks: []string{"a/01"}, Outcome: "done", Tokens: &event.Tokens{Input: 3}, CostUSD: &cost}))
		assert.NilError(t, l.Finish(LoopEnd{Stop: "interrupted", ExitCode: 130}))
	}
	other := newLoop(noon.Add(2 * time.Hour))
	other.Branch = "topic"
	l, err := Create(top, other)
	assert.NilError(t, err)
	assert.NilError(t, l.Finish(LoopEnd{Stop: "complete"}))

	l, iterations, err := Resume(top, newLoop(noon.Add(3*time.Hour)), notAlive)
	assert.NilError(t, err)
	assert.Equal(t, l.Loop.ID, "20310203-130000-build")
	assert.Equal(t, len(iterations), 1)
	assert.Equal(t, iterations[0].N, 2)
	assert.Equal(t, *iterations[0].CostUSD, 0.5)
	assert.Equal(t, iterations[0].Tokens.Total(), int64(3))
	assert.Equal(t, l.Loop.Started, noon.Add(time.Hour))
	assert.Equal(t, l.Loop.Stop, "", "not stopped")
}

func TestResumeWithoutALoop(t *testing.T) {
	_, _, err := Resume(t.TempDir(), newLoop(noon), notAlive)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestResumeSkipsInvalidLines(t *testing.T) {
	top := t.TempDir()
	l := create(t, top, noon)
	assert.NilError(t, l.Append(Iteration{N: 1, Outcome: "done"}))
	f, err := os.OpenFile(filepath.Join(top, l.Loop.ID, iterationsFile), os.O_APPEND|os.O_WRONLY, 0)
	assert.NilError(t, err)
	_, err = f.WriteString("{\"n\":2,\"outc\nnull\n[]\n{\"n\":-7}\n")
	assert.NilError(t, errors.Join(err, f.Close()))
	_, iterations, err := Resume(top, newLoop(noon), notAlive)
	assert.NilError(t, err)
	assert.Equal(t, len(iterations), 1)
}

func TestLoopsOfTheSameSecondHaveDifferentIDs(t *testing.T) {
	top := t.TempDir()
	first, second := create(t, top, noon), create(t, top, noon)
	assert.Assert(t, first.Loop.ID != second.Loop.ID)
}

func TestStreamIsBounded(t *testing.T) {
	top := t.TempDir()
	l := create(t, top, noon)
	w, err := l.Stream(1)
	assert.NilError(t, err)
	line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
	for range maxStream>>20 + 3 {
		n, err := w.Write(append(line, 'y'))
		assert.NilError(t, err)
		assert.Equal(t, n, len(line)+1)
	}
	assert.NilError(t, w.Close())
	b, err := os.ReadFile(filepath.Join(top, l.Loop.ID, "1.jsonl"))
	assert.NilError(t, err)
	assert.Assert(t, len(b) < maxStream+200)
	assert.Assert(t, strings.HasSuffix(string(b), "\n{\"type\":\"ralph\",\"subtype\":\"truncated\",\"after_bytes\":67108864}\n"))
}

func TestOldLoopsArePruned(t *testing.T) {
	top := t.TempDir()
	old := time.Now().Add(-48 * time.Hour)
	for i := range maxLoops + 2 {
		l := create(t, top, noon.Add(time.Duration(i)*time.Second))
		if i != 0 { // the first can still be running
			assert.NilError(t, os.Chtimes(filepath.Join(top, l.Loop.ID, loopFile), old, old))
		}
	}
	create(t, top, noon.Add(time.Hour))
	entries, err := os.ReadDir(top)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), maxLoops)
	assert.Equal(t, entries[0].Name(), "20310203-120000-build")
}

func TestLargeLoopsArePruned(t *testing.T) {
	top := t.TempDir()
	running := create(t, top, noon)
	big := create(t, top, noon.Add(time.Second))
	assert.NilError(t, os.WriteFile(filepath.Join(top, big.Loop.ID, "1.jsonl"), make([]byte, 5000), 0o600))
	assert.NilError(t, big.Finish(LoopEnd{Stop: "complete"}))
	small := create(t, top, noon.Add(2*time.Second))
	assert.NilError(t, small.Finish(LoopEnd{Stop: "complete"}))
	this := create(t, top, noon.Add(3*time.Second))
	logs, err := os.OpenRoot(top)
	assert.NilError(t, err)
	defer func() { _ = logs.Close() }()
	prune(logs, maxLoops, 4000, this.Loop.ID)
	assert.DeepEqual(t, loopNames(logs), []string{running.Loop.ID, small.Loop.ID, this.Loop.ID})
	prune(logs, 0, 0, this.Loop.ID)
	assert.DeepEqual(t, loopNames(logs), []string{running.Loop.ID, this.Loop.ID})
}

func TestOutputIsLoggedPerRun(t *testing.T) {
	top := t.TempDir()
	l := create(t, top, noon)
	var terminal strings.Builder
	w := l.Output(0).Tee(&terminal)
	for _, say := range []func(){
		func() { _, _ = w.Write([]byte("banner\n")) },
		func() { l.Begin(1) },
		func() { _, _ = w.Write([]byte("one\n")) },
		func() { l.Note("noted\n") },
		func() { l.Begin(2) },
		func() { _, _ = w.Write([]byte("two\n")) },
	} {
		say()
	}
	assert.Equal(t, terminal.String(), "banner\none\ntwo\n")
	for n, want := range []string{"banner\n", "one\nnoted\n", "two\n"} {
		got, err := os.ReadFile(filepath.Join(top, l.Loop.ID, outputFile(n)))
		assert.NilError(t, err)
		assert.Equal(t, string(got), want)
	}
}

func TestOutputIsBounded(t *testing.T) {
	top := t.TempDir()
	l := create(t, top, noon)
	o := l.Output(0)
	line := []byte(strings.Repeat("x", 1<<20))
	for range maxOutput>>20 + 3 {
		n, err := o.Write(line)
		assert.NilError(t, err)
		assert.Equal(t, n, len(line))
	}
	l.Output(0) // a resumed loop has the same limit
	_, _ = l.output.Write([]byte("more"))
	b, err := os.ReadFile(filepath.Join(top, l.Loop.ID, "0.log"))
	assert.NilError(t, err)
	assert.Assert(t, len(b) < maxOutput+200)
	assert.Check(t, strings.Contains(string(b), "\n[output truncated after 16 MiB]\n"))
}

func TestRecoverLogsTheInterruptedRun(t *testing.T) {
	top := t.TempDir()
	loop := newLoop(noon)
	loop.Dispatch, loop.AgentID = "D1", "aa11"
	l, err := Create(top, loop)
	assert.NilError(t, err)
	assert.NilError(t, l.Append(Iteration{N: 1, Done: []string{"a/01"}, Outcome: "done", Started: noon.Add(time.Minute)}))
	assert.NilError(t, l.SetNow(Now{N: 2, Tasks: []string{"a/02"}, Started: noon.Add(2 * time.Minute)}))
	finished := func(agent string) []string {
		assert.Equal(t, agent, loop.AgentID)
		return []string{"a/03", "a/01"} // not logged before the loop died
	}

	again := newLoop(noon.Add(time.Hour))
	again.Dispatch, again.AgentID = "D1", "bb22"
	for range 2 { // without an interrupted run the second time
		l, all, made, err := Recover(top, again, "failed", "the sandbox was killed", finished)
		assert.NilError(t, err)
		assert.Equal(t, made, 2)
		assert.Equal(t, len(all), 2)
		assert.Equal(t, all[1].Reason, "the sandbox was killed")
		assert.DeepEqual(t, all[1].Tasks, []string{"a/02", "a/03"})
		logged, _ := readEvents(t, findAny(t, top), 0)
		assert.DeepEqual(t, logged[1:], []Data{&RunEnd{all[1]}})
		assert.DeepEqual(t, all[1].Done, []string{"a/03"})
		assert.Equal(t, l.Loop.Started, noon)
		assert.Equal(t, l.Loop.Stop, "", "not stopped")
	}
	// The log of another dispatch is not used.
	again.Dispatch = "D2"
	_, _, _, err = Recover(top, again, "failed", "the sandbox was killed", finished)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
