package session

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
)

// waits records the waits of a client.
func waits() (report func(bool), got chan bool) {
	got = make(chan bool, 100)
	return func(waiting bool) { got <- waiting }, got
}

var errAway = errors.New("connection refused")

func TestClientWaitsForTheHost(t *testing.T) {
	dial := listen(t, NewDoor(DoorOptions{Store: newStore(t), Command: "build", Token: "secret"}), true)
	failures := 3
	report, waiting := waits()
	c := NewClient(ClientOptions{Token: "secret", Wait: time.Minute, Waiting: report, Dial: func(ctx context.Context) (net.Conn, error) {
		if failures--; failures >= 0 {
			return nil, errAway
		}
		return dial(ctx)
	}})
	_, err := c.Status(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(waiting), 2, "one wait")
	assert.Equal(t, <-waiting, true)
	assert.Equal(t, <-waiting, false)
	_, err = c.Status(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(waiting), 0)
}

func TestClientGivesUp(t *testing.T) {
	for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
		c := NewClient(ClientOptions{Wait: wait, Dial: func(context.Context) (net.Conn, error) { return nil, errAway }})
		_, err := c.Status(t.Context())
		assert.ErrorIs(t, err, ErrNoHost)
		assert.ErrorIs(t, err, errAway)
		assert.DeepEqual(t, hint.Of(err), []string{`run "docker ralph attach" on the host`})
	}
}

func TestClientWaitsOnce(t *testing.T) {
	report, waiting := waits()
	c := NewClient(ClientOptions{Wait: 10 * time.Millisecond, Waiting: report, Dial: func(context.Context) (net.Conn, error) { return nil, errAway }})
	for range 2 {
		_, err := c.Status(t.Context())
		assert.ErrorIs(t, err, ErrNoHost)
	}
	assert.Equal(t, len(waiting), 2, "one wait")
}

func TestInterruptEndsWaits(t *testing.T) {
	report, waiting := waits()
	c := NewClient(ClientOptions{Wait: time.Hour, Waiting: report, Dial: func(context.Context) (net.Conn, error) { return nil, errAway }})
	result := make(chan error)
	go func() { result <- c.Renew(t.Context(), "me") }()
	assert.Equal(t, <-waiting, true)
	c.Interrupt()
	c.Interrupt()
	assert.ErrorIs(t, <-result, ErrInterrupted)
	assert.Equal(t, <-waiting, false)
	assert.ErrorIs(t, c.Renew(t.Context(), "me"), ErrInterrupted)
}

func TestInterruptedClientStillReachesTheHost(t *testing.T) {
	c := connect(t, DoorOptions{Store: newStore(t)}, true)
	c.Interrupt()
	_, err := c.Status(t.Context())
	assert.NilError(t, err)
}

func TestCanceledContextEndsWaits(t *testing.T) {
	report, waiting := waits()
	c := NewClient(ClientOptions{Wait: time.Hour, Waiting: report, Dial: func(context.Context) (net.Conn, error) { return nil, errAway }})
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error)
	go func() { result <- c.Renew(ctx, "me") }()
	<-waiting
	cancel(io.ErrUnexpectedEOF)
	assert.ErrorIs(t, <-result, io.ErrUnexpectedEOF)
}

// deaf loses the answer to a request.
type deaf struct{ net.Conn }

func (c deaf) Read(p []byte) (int, error) {
	if _, err := c.Conn.Read(p); err != nil { // it was executed
		return 0, err
	}
	return 0, io.ErrUnexpectedEOF
}

func TestRequestWithALostAnswerIsNotExecutedAgain(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "b")
	dial := listen(t, NewDoor(DoorOptions{Store: s}), false)
	first := true
	c := NewClient(ClientOptions{Wait: time.Minute, Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if first {
			first = false
			return deaf{conn}, err
		}
		return conn, err
	}})
	out := runTask(t, c, "me", "claim")
	assert.Assert(t, strings.HasPrefix(string(out.Stdout), "## Task a\n"), "%s%s", out.Stdout, out.Stderr)
	b, err := s.Show(t.Context(), "b")
	assert.NilError(t, err)
	assert.Equal(t, b.Status, "open")
}

func TestUnexpectedAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"no JSON", "reading the answer of the host: ", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }},
		{"failure", "docker ralph on the host failed: 500 Internal Server Error", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		}},
		{"endless", "answer is larger than 32 MiB", func(w http.ResponseWriter, _ *http.Request) {
			for block := strings.Repeat(" ", 1<<20); ; {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var requests atomic.Int32
			dial := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { requests.Add(1); tc.answer(w, r) }), true)
			_, err := NewClient(ClientOptions{Dial: dial, Wait: time.Minute}).Status(t.Context())
			assert.ErrorContains(t, err, tc.want)
			assert.Equal(t, requests.Load(), int32(1))
		})
	}
}

func TestLargeRequestIsNotSent(t *testing.T) {
	c := NewClient(ClientOptions{})
	_, err := c.Task(t.Context(), TaskRequest{Args: []string{"plan-sync"}, Stdin: make([]byte, MaxRequest)})
	assert.Error(t, err, "request is larger than 8 MiB")
}
