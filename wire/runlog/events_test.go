package runlog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/event"
)

func findAny(t *testing.T, top string) *Reader {
	t.Helper()
	r, err := Find(top, func(Loop) bool { return true })
	assert.NilError(t, err)
	t.Cleanup(r.Close)
	return r
}

func readEvents(t *testing.T, r *Reader, offset int64) (data []Data, next int64) {
	t.Helper()
	events, next, err := r.Events(offset)
	assert.NilError(t, err)
	for _, e := range events {
		data = append(data, e.Data)
	}
	return data, next
}

func TestEventsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	l := create(t, top, noon)
	r := findAny(t, top)
	data, next := readEvents(t, r, 0)
	assert.Equal(t, len(data), 0)

	cost := 0.25
	usage := Usage{Tokens: &event.Tokens{Input: 3, Output: 4}, CostUSD: &cost}
	want := []Data{
		&LoopStart{Mode: "build", Agent: "claude", Branch: "main", Limits: Limits{MaxCostUSD: 2}, Tasks: Counts{Open: 2}},
		&LoopResume{Reason: "--resume"},
		&RunStart{N: 1, Commit: "c0ffee"},
		&State{N: 1, State: StateRateLimited, Until: noon, Text: "five hour limit reached"},
		&UsageSoFar{1, usage},
		&TaskChange{N: 1, ID: "a/01", Title: "Log in", Status: "active"},
		&Question{N: 1, ID: "a/01", Question: "Which?", Options: []string{"x", "y"}, Default: "x", DefaultAt: noon},
		&LimitNear{N: 1, Name: "max_cost_usd", Used: 1.7, Limit: 2},
	}
	for _, d := range want {
		assert.NilError(t, l.Emit(d))
	}
	it := Iteration{N: 1, Tasks: []string{"a/01"}, Outcome: "done", Checks: []Check{{Command: "make test", Seconds: 3}}, Retries: 2}
	assert.NilError(t, l.Append(it))
	data, next = readEvents(t, r, next)
	assert.DeepEqual(t, data, append(want, &RunEnd{it}))

	end := &LoopEnd{Stop: "max_cost_usd", ExitCode: 4, Error: "cost limit reached", Summary: "Total: 1 run"}
	assert.NilError(t, l.Finish(*end))
	data, last := readEvents(t, r, next)
	assert.DeepEqual(t, data, []Data{end})
	data, next = readEvents(t, r, last)
	assert.Equal(t, len(data), 0)
	assert.Equal(t, next, last)
	assert.Equal(t, r.Snapshot().Now.State, StateEnded)
	loop, err := r.Reload()
	assert.NilError(t, err)
	assert.Equal(t, loop.Error, "cost limit reached")
}

func TestEventsAreFlatObjects(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(Event{Time: noon, Data: &UsageSoFar{N: 2}, Next: 9})
	assert.NilError(t, err)
	assert.Equal(t, string(b), `{"time":"2031-02-03T12:00:00Z","type":"usage","n":2,"tokens":null,"cost_usd":null}`)
}

// An agent can write the event log too.
func TestEventsOfAnAgent(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	l := create(t, top, noon)
	r := findAny(t, top)
	path := filepath.Join(top, l.Loop.ID, eventsFile)
	write := func(content string) {
		assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	const head = `{"time":"2031-02-03T12:00:00Z","type":`

	write("nonsense\n[]\nnull\n" + head + `"unknown"}` + "\n" + head + `"run.start","n":"x"}` + "\n" +
		head + `"state","state":"working","text":"a\u001b[2Jb\u009b1m"}` + "\n" + head + `"run.st`)
	data, next := readEvents(t, r, 0)
	assert.DeepEqual(t, data, []Data{&State{State: StateWorking, Text: "ab"}})
	_, again := readEvents(t, r, next)
	assert.Equal(t, again, next, "an incomplete line is not read")

	write("") // truncated
	data, next = readEvents(t, r, next)
	assert.Equal(t, len(data), 0)
	assert.Equal(t, next, int64(0))

	write(strings.Repeat("x", maxEventRead+10) + "\n" + head + `"run.start","n":3}` + "\n")
	var all []Data
	for offset := int64(-1); offset != next; {
		offset = next
		data, next = readEvents(t, r, offset)
		all = append(all, data...)
	}
	assert.DeepEqual(t, all, []Data{&RunStart{N: 3}})

	assert.NilError(t, os.Remove(path))
	assert.NilError(t, os.Symlink("/dev/zero", path))
	_, _, err := r.Events(0)
	assert.ErrorContains(t, err, "not a regular file")
}

func TestNowOfAnAgentHasNoControlSequences(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	l := create(t, top, noon)
	assert.NilError(t, l.SetNow(Now{N: 1, Tasks: []string{"a/\x1b[2J1"}, State: StateRetrying, Text: "\x1b]0;x\x07late", LastOutput: noon.Add(time.Second)}))
	now := Recent(top, 1, Any)[0].Now
	assert.DeepEqual(t, now, Now{N: 1, Tasks: []string{"a/1"}, State: StateRetrying, Text: "late", LastOutput: noon.Add(time.Second)})
}
