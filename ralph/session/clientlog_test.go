package session

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// unreliable is a connection to a host that can go away, and loses some answers.
type unreliable struct {
	dial  func(context.Context) (net.Conn, error)
	away  atomic.Bool
	loses atomic.Int32 // the next answers
	tried chan struct{}
}

func (u *unreliable) Dial(ctx context.Context) (net.Conn, error) {
	if u.away.Load() {
		select {
		case u.tried <- struct{}{}:
		default:
		}
		return nil, errAway
	}
	conn, err := u.dial(ctx)
	if err == nil && u.loses.Add(-1) >= 0 {
		return deaf{conn}, nil
	}
	return conn, err
}

func newUnreliable(t *testing.T, logs string, o ClientOptions) (*unreliable, *Client) {
	t.Helper()
	u := &unreliable{tried: make(chan struct{}, 1)}
	u.dial = listen(t, NewDoor(DoorOptions{Store: newStore(t), Session: "s1", Command: "build", Token: "secret", Alive: alive, Logs: logs}), true)
	o.Dial, o.Token = u.Dial, "secret"
	return u, NewClient(o)
}

func TestLogWaitsForTheHostInOrder(t *testing.T) {
	ctx, logs := t.Context(), t.TempDir()
	report, waiting := waits()
	u, c := newUnreliable(t, logs, ClientOptions{Wait: time.Minute, Waiting: report})
	log, _, _, err := c.OpenLog(ctx, buildLog(""))
	assert.NilError(t, err)
	u.away.Store(true)

	w, err := log.Stream(1)
	assert.NilError(t, err)
	output := log.Output(1)
	var want strings.Builder
	for n := range 3 * maxMemory / (1 << 10) { // more than fits into memory
		line := fmt.Sprintf("%-1023d\n", n)
		want.WriteString(line)
		_, err = w.Write([]byte(line))
		assert.NilError(t, err)
		_, _ = output.Write([]byte(line))
		assert.NilError(t, log.SetNow(runlog.Now{N: n}))
	}
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 1}))
	q := c.log.Load()
	assert.Check(t, q.memory <= maxMemory+maxChunk, "%d", q.memory)
	<-u.tried
	assert.Equal(t, len(waiting), 0, "the loop works on")

	done := make(chan error)
	go func() { done <- c.Flush(ctx) }()
	assert.Equal(t, <-waiting, true)
	u.loses.Store(2)
	u.away.Store(false)
	assert.NilError(t, <-done)
	assert.Equal(t, <-waiting, false)
	for _, file := range []string{"1.jsonl", "1.log"} {
		b, err := os.ReadFile(filepath.Join(logs, log.Loop.ID, file))
		assert.NilError(t, err)
		assert.Assert(t, string(b) == want.String(), file)
	}
	assert.Equal(t, snapshot(t, logs).Now.N, 3*maxMemory/(1<<10)-1)
	assert.Assert(t, q.spool.file == nil)
	assert.Equal(t, q.memory, 0)
}

func TestFlushGivesUpWithoutItsHost(t *testing.T) {
	ctx, logs := t.Context(), t.TempDir()
	u, c := newUnreliable(t, logs, ClientOptions{Wait: 10 * time.Millisecond})
	assert.NilError(t, c.Flush(ctx), "no log")
	log, _, _, err := c.OpenLog(ctx, buildLog(""))
	assert.NilError(t, err)
	assert.NilError(t, c.Flush(ctx))
	u.away.Store(true)
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 1}))
	for range 2 {
		err = c.Flush(ctx)
		assert.ErrorIs(t, err, ErrNoHost)
		assert.ErrorIs(t, err, errAway)
	}
	_, err = c.Status(ctx)
	assert.ErrorIs(t, err, ErrNoHost)
	u.away.Store(false)
	assert.NilError(t, c.Flush(ctx))
}

func TestInterruptEndsAFlush(t *testing.T) {
	ctx, logs := t.Context(), t.TempDir()
	report, waiting := waits()
	u, c := newUnreliable(t, logs, ClientOptions{Wait: time.Hour, Waiting: report})
	log, _, _, err := c.OpenLog(ctx, buildLog(""))
	assert.NilError(t, err)
	u.away.Store(true)
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 1}))
	done := make(chan error)
	go func() { done <- c.Flush(ctx) }()
	assert.Equal(t, <-waiting, true)
	c.Interrupt()
	assert.ErrorIs(t, <-done, ErrInterrupted)
	u.away.Store(false)
	assert.NilError(t, c.Flush(ctx), "it is still sent")
}

// A host that cannot write a part does not keep the loop from logging what follows.
func TestLogContinuesAfterAFailure(t *testing.T) {
	ctx, logs := t.Context(), t.TempDir()
	_, c := newUnreliable(t, logs, ClientOptions{Wait: time.Minute})
	log, _, _, err := c.OpenLog(ctx, buildLog(""))
	assert.NilError(t, err)
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 1}))
	assert.NilError(t, c.Flush(ctx))

	events := filepath.Join(logs, log.Loop.ID, "events.jsonl")
	assert.NilError(t, os.Truncate(events, 0))
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 2}))
	assert.ErrorContains(t, c.Flush(ctx), "sending the log to the host: receiving the log \"events.jsonl\": offset")
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 3}))
	assert.NilError(t, c.Flush(ctx))
	b, err := os.ReadFile(events)
	assert.NilError(t, err)
	assert.Check(t, cmp.Contains(string(b), `"n":3`))

	assert.NilError(t, os.RemoveAll(logs))
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 4}))
	assert.ErrorContains(t, c.Flush(ctx), "no such file")
}

func TestFlushEndsWithTheSender(t *testing.T) {
	_, c := newUnreliable(t, t.TempDir(), ClientOptions{Wait: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	log, _, _, err := c.OpenLog(ctx, buildLog(""))
	assert.NilError(t, err)
	cancel()
	<-c.log.Load().stopped
	assert.NilError(t, log.Emit(&runlog.RunStart{N: 1}))
	assert.Error(t, c.Flush(t.Context()), "the log is no longer sent")
}

func TestQueueDropsTheOutputOfAnAgent(t *testing.T) {
	q := newLogQueue("loop", nil)
	q.spool.max = maxChunk
	line := []byte(strings.Repeat("x", maxChunk-1) + "\n")
	for range 2 * maxMemory / maxChunk {
		assert.NilError(t, q.Append("1.jsonl", line))
	}
	assert.NilError(t, q.Append("events.jsonl", line))
	var kept int
	var end []byte
	for more := true; more; {
		var parts []logPart
		parts, more = q.next()
		for _, p := range parts {
			if kept += len(p.Data); p.File == "1.jsonl" {
				end = p.Data
			}
		}
		q.sent(parts, logWritten{}, nil)
	}
	assert.NilError(t, q.takeRefused())
	want := maxMemory + 2*maxChunk // with the spool and the event
	assert.Check(t, kept > want && kept < want+200, "%d", kept)
	assert.Check(t, cmp.Regexp(`\n\{"type":"ralph","subtype":"truncated","after_bytes":\d+\}\n$`, string(end[max(0, len(end)-100):])))
	assert.Equal(t, q.memory, 0)
}

func TestQueueKeepsTheLastState(t *testing.T) {
	q := newLogQueue("loop", map[string]int64{"1.log": 5})
	for n := range 3 {
		assert.NilError(t, q.Replace("now.json", []byte{byte('0' + n)}))
		assert.NilError(t, q.Append("1.log", []byte("x")))
	}
	parts, more := q.next()
	assert.Equal(t, more, false)
	assert.DeepEqual(t, parts, []logPart{
		{File: "1.log", Offset: 5, Data: []byte("xxx")},
		{File: "now.json", Replace: true, Data: []byte("2")},
	})
	assert.ErrorContains(t, q.Replace("now.json", make([]byte, maxState+1)), "too long")
	assert.Equal(t, q.Size("1.log"), int64(8))
}
