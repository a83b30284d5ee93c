package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// batchPause is how long parts of the log are collected before they are sent.
const batchPause = 200 * time.Millisecond

// OpenLog opens the log of the loop on the host, and returns its runs so far, and how many of them the session has
// made. What the log writes is sent in the background until the context ends.
func (c *Client) OpenLog(ctx context.Context, r LogRequest) (log *runlog.Log, earlier []runlog.Iteration, made int, err error) {
	var opened logOpened
	if err := c.send(ctx, loopPath+openLogName, rand.Text(), r, &opened); err != nil {
		return nil, nil, 0, err
	}
	q := newLogQueue(opened.Loop.ID, opened.Sizes)
	c.log.Store(q)
	go c.sendLog(ctx, q)
	return runlog.New(opened.Loop, q), opened.Earlier, opened.Made, nil
}

// sendLog sends what is queued. While the host is away, the queue keeps it.
func (c *Client) sendLog(ctx context.Context, q *logQueue) {
	defer close(q.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.filled:
		}
		select {
		case <-ctx.Done():
			return
		case <-q.urgent:
		case <-time.After(batchPause):
		}
		for more := true; more; {
			var parts []logPart
			if parts, more = q.next(); len(parts) == 0 {
				break
			}
			written, err := c.writeLog(ctx, q, parts)
			if ctx.Err() != nil {
				return
			}
			q.sent(parts, written, err)
		}
	}
}

// writeLog sends parts of the log until the host answers.
func (c *Client) writeLog(ctx context.Context, q *logQueue, parts []logPart) (written logWritten, err error) {
	body, err := json.Marshal(logRequest{Loop: q.loop, Parts: parts})
	if err != nil {
		return logWritten{}, fmt.Errorf("encoding the log: %w", err)
	}
	id := rand.Text()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		answer, err := c.attempt(ctx, loopPath+writeLogName, id, body)
		var lost *lostError
		switch {
		case err == nil:
			c.away.Store(false)
			err := decodeAnswer(answer, &written)
			return written, err
		case ctx.Err() != nil || !errors.As(err, &lost):
			return logWritten{}, err
		}
		q.lose(err)
		select {
		case <-ctx.Done():
		case <-q.urgent:
		case <-time.After(pause):
		}
	}
}

// Flush waits until the host has the log. It returns an error of the host, or [ErrNoHost] if the host does not answer
// in time.
func (c *Client) Flush(ctx context.Context) error {
	q := c.log.Load()
	if q == nil {
		return nil
	}
	wait := c.options.Wait
	if c.away.Load() {
		wait = 0
	}
	before := q.state()
	end, waiting := time.Now().Add(wait), false
	defer func() {
		if waiting {
			c.options.Waiting(false)
		}
	}()
	for q.hurry(); ; {
		now := q.state()
		if now.empty {
			return q.takeRefused()
		}
		if now.answers > before.answers {
			before, end = now, time.Now().Add(c.options.Wait)
		}
		away := now.lost != nil && now.losses > before.losses
		if away && !time.Now().Before(end) {
			c.away.Store(true)
			return noHost(now.lost)
		}
		if away && !waiting {
			waiting = true
			c.options.Waiting(true)
		}
		if err := c.awaitLog(ctx, q, now.changed, away, end); err != nil {
			return err
		}
	}
}

// awaitLog waits until the queue changes. Only while the host is away, the wait can be interrupted, and ends.
func (c *Client) awaitLog(ctx context.Context, q *logQueue, changed <-chan struct{}, away bool, end time.Time) error {
	var interrupted <-chan struct{}
	var ended <-chan time.Time
	if away {
		interrupted, ended = c.interrupted, time.After(time.Until(end))
	}
	select {
	case <-changed:
	case <-ended:
	case <-interrupted:
		return ErrInterrupted
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-q.stopped:
		return errors.New("the log is no longer sent")
	}
	return nil
}
