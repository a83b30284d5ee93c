package session

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

var noon = time.Date(2031, 2, 3, 12, 0, 0, 0, time.UTC)

func alive(context.Context, string) bool { return true }

// buildLog is the log of a build.
func buildLog(agentID string) LogRequest {
	return LogRequest{Loop: runlog.Loop{Mode: "build", Agent: "claude", AgentID: agentID, Started: noon, Repo: "other", Branch: "other", Dispatch: "other"}}
}

// snapshot returns the last loop in the directory of logs.
func snapshot(t *testing.T, logs string) runlog.Snapshot {
	t.Helper()
	recent := runlog.Recent(logs, 1, runlog.Any)
	assert.Assert(t, cmp.Len(recent, 1))
	return recent[0]
}

func TestLogIsOnTheHost(t *testing.T) {
	ctx, logs := t.Context(), filepath.Join(t.TempDir(), "logs")
	events := make(chan runlog.Event, 10)
	c := connect(t, DoorOptions{
		Store: newStore(t), Session: "s1", Command: "build", Alive: alive, Logs: logs, Event: func(e runlog.Event) { events <- e },
	}, true)
	log, earlier, made, err := c.OpenLog(ctx, buildLog("aa11"))
	assert.NilError(t, err)
	assert.Equal(t, len(earlier)+made, 0)

	w, err := log.Stream(1)
	assert.NilError(t, err)
	_, err = w.Write([]byte("{}\n"))
	assert.NilError(t, err)
	_, _ = log.Output(1).Write([]byte("said\n"))
	assert.NilError(t, log.SetNow(runlog.Now{N: 1}))
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 1}))
	assert.NilError(t, c.Flush(ctx))
	assert.DeepEqual(t, (<-events).Data, &runlog.RunStart{N: 1})
	assert.NilError(t, log.Append(runlog.Iteration{N: 1, Outcome: "done"}))
	assert.NilError(t, log.Finish(runlog.LoopEnd{Stop: "complete"}))
	assert.NilError(t, c.Flush(ctx))
	assert.Equal(t, (<-events).Data.Type(), "run.end")
	assert.Equal(t, (<-events).Data.Type(), "loop.end")

	got := snapshot(t, logs)
	assert.Equal(t, got.ID, "20310203-120000-build")
	assert.Equal(t, got.Branch+" "+got.Repo+" "+got.Dispatch+" "+got.Stop, "main acme/shop s1 complete")
	b, err := os.ReadFile(filepath.Join(logs, got.ID, "1.log"))
	assert.NilError(t, err)
	assert.Equal(t, string(b), "said\n")
}

func TestResumedLogContinues(t *testing.T) {
	ctx, logs, s := t.Context(), t.TempDir(), newStore(t)
	o := DoorOptions{Store: s, Session: "s1", Command: "build", Alive: alive, Logs: logs}
	c := connect(t, o, true)
	resume := buildLog("")
	resume.Resume = true
	_, _, _, err := c.OpenLog(ctx, resume)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.Assert(t, !strings.Contains(err.Error(), logs), err)

	other, err := s.RegisterAgent(ctx, backlog.Agent{Loop: true, Session: "s2"})
	assert.NilError(t, err)
	log, _, _, err := c.OpenLog(ctx, buildLog(other))
	assert.NilError(t, err)
	assert.NilError(t, log.Append(runlog.Iteration{N: 1, Outcome: "done"}))
	assert.NilError(t, c.Flush(ctx))
	for _, again := range []LogRequest{buildLog(""), resume} {
		_, _, _, err = c.OpenLog(ctx, again)
		assert.Error(t, err, "the loop has opened its log already")
	}
	c = connect(t, o, true)
	_, _, _, err = c.OpenLog(ctx, resume)
	assert.ErrorIs(t, err, runlog.ErrRunning)

	assert.NilError(t, s.DeregisterAgent(ctx, other))
	log, earlier, _, err := c.OpenLog(ctx, resume)
	assert.NilError(t, err)
	assert.Assert(t, cmp.Len(earlier, 1))
	assert.NilError(t, log.Append(runlog.Iteration{N: 2, Outcome: "failed"}))
	assert.NilError(t, c.Flush(ctx))
	assert.Equal(t, snapshot(t, logs).Last.N, 2)
	assert.Equal(t, len(runlog.History(logs)[0].Runs), 2)
}

func TestRecoveredLogHasTheFinishedTasks(t *testing.T) {
	ctx, logs, s := t.Context(), t.TempDir(), newStore(t)
	o := DoorOptions{Store: s, Session: "s1", Command: "build", Alive: alive, Logs: logs}
	c := connect(t, o, true)
	again := buildLog("bb22")
	again.Recover, again.Outcome, again.Reason = true, "failed", "the sandbox was killed"
	_, _, _, err := c.OpenLog(ctx, again)
	assert.ErrorIs(t, err, fs.ErrNotExist)

	log, _, _, err := c.OpenLog(ctx, buildLog("aa11"))
	assert.NilError(t, err)
	add(t, s, "a")
	claim(t, s, "a", "aa11")
	assert.NilError(t, s.Done(ctx, "a", ""))
	assert.NilError(t, log.SetNow(runlog.Now{N: 1, Started: noon.Add(time.Minute)}))
	assert.NilError(t, c.Flush(ctx))

	c = connect(t, o, true)
	log, earlier, made, err := c.OpenLog(ctx, again)
	assert.NilError(t, err)
	assert.Equal(t, made, 1)
	assert.DeepEqual(t, earlier[0].Done, []string{"a"})
	assert.Equal(t, earlier[0].Reason, "the sandbox was killed")
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 2}))
	assert.NilError(t, c.Flush(ctx))
	r, err := runlog.Find(logs, runlog.Any)
	assert.NilError(t, err)
	defer r.Close()
	events, _, err := r.Events(0)
	assert.NilError(t, err)
	assert.Assert(t, cmp.Len(events, 2))
}

func TestLogOfOthersIsRefused(t *testing.T) {
	ctx, logs := t.Context(), t.TempDir()
	other, err := runlog.Create(logs, runlog.Loop{Mode: "build", Started: noon, Dispatch: "s2"})
	assert.NilError(t, err)
	o := DoorOptions{Store: newStore(t), Session: "s1", Command: "build", Alive: alive, Logs: logs}
	c := connect(t, o, true)
	log, _, _, err := c.OpenLog(ctx, buildLog(""))
	assert.NilError(t, err)

	for _, tc := range []struct {
		name, loop string
		part       logPart
		refused    string // the request
		failed     string // the file
	}{
		{name: "own", loop: log.Loop.ID, part: logPart{File: "1.log", Data: []byte("x")}},
		{name: "another session", loop: other.Loop.ID, part: logPart{File: "1.log"}, refused: "is that of another session"},
		{name: "missing", loop: "20310203-110000-build", refused: "receiving the log of loop"},
		{name: "outside", loop: "../logs", refused: "invalid name"},
		{name: "outside of the loop", loop: log.Loop.ID, part: logPart{File: "../1.log"}, failed: "invalid name"},
		{name: "gap", loop: log.Loop.ID, part: logPart{File: "2.log", Offset: 1, Data: []byte("x")}, failed: "offset 1"},
		{name: "state of another", loop: log.Loop.ID, part: logPart{File: "loop.json", Replace: true, Data: []byte(`{"dispatch":"s2"}`)}, failed: "state of another loop"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var written logWritten
			err := c.send(ctx, loopPath+writeLogName, tc.name, logRequest{Loop: tc.loop, Parts: []logPart{tc.part, tc.part}}, &written)
			if tc.refused != "" {
				assert.ErrorContains(t, err, tc.refused)
				return
			}
			assert.NilError(t, err)
			assert.Assert(t, cmp.Contains(written.Failed[tc.part.File].Error, tc.failed))
			assert.Equal(t, len(written.Failed) > 0, tc.failed != "")
		})
	}
	entries, err := os.ReadDir(filepath.Join(logs, other.Loop.ID))
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 1)

	_, _, _, err = connect(t, o, false).OpenLog(ctx, buildLog(""))
	assert.Error(t, err, "only the loop of the session may do this")
	err = connect(t, o, false).send(ctx, loopPath+writeLogName, "1", logRequest{Loop: log.Loop.ID}, &logWritten{})
	assert.Error(t, err, "only the loop of the session may do this")
	bad := buildLog("")
	bad.Loop.Mode = "../../build"
	_, _, _, err = connect(t, o, true).OpenLog(ctx, bad)
	assert.ErrorContains(t, err, "invalid name")
}

func TestMalformedLogRequestsAreRefused(t *testing.T) {
	d := NewDoor(DoorOptions{Store: newStore(t), Command: "build", Token: "secret", Logs: t.TempDir()})
	for _, path := range []string{openLogName, writeLogName} {
		for _, body := range []string{"", "[]", `{"x":1}`, `{} {}`} {
			status, _ := post(d, "POST", loopPath+path, body, requestHeader, "1")
			assert.Equal(t, status, http.StatusBadRequest, body)
		}
	}
}

// logSeeds are requests about logs for FuzzDoor.
func logSeeds(loop string) map[string][]byte {
	write, _ := json.Marshal(logRequest{Loop: loop, Parts: []logPart{
		{File: "1.log", Data: []byte("x\n")},
		{File: "loop.json", Replace: true, Data: []byte(`{"dispatch":"s1"}`)},
		{File: "events.jsonl", Data: []byte(`{"type":"run.start","n":1}` + "\n")},
	}})
	return map[string][]byte{
		loopPath + openLogName:  []byte(`{"loop":{"mode":"build","agent":"claude","started":"2031-02-03T12:00:00Z","exit_code":0},"resume":true}`),
		loopPath + writeLogName: write,
	}
}
