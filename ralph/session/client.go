package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
)

var (
	// ErrInterrupted is returned when [Client.Interrupt] ends a wait for the host.
	ErrInterrupted = errors.New("interrupted while waiting for docker ralph on the host")
	// ErrNoHost is wrapped if the host does not answer in time.
	ErrNoHost = errors.New("docker ralph on the host does not answer")
)

// ClientOptions configure a [Client].
type ClientOptions struct {
	Dial    func(ctx context.Context) (net.Conn, error)
	Token   string
	Wait    time.Duration // how long it waits for the host
	Waiting func(bool)    // called when a wait begins and ends, by several goroutines; may be nil
}

// Client sends requests to the host. It repeats one whose connection fails.
type Client struct {
	options     ClientOptions
	http        http.Client
	interrupted chan struct{}
	interrupt   func()
	away        atomic.Bool // the host, for longer than Wait: the next requests do not wait again
	log         atomic.Pointer[logQueue]
}

var _ Backlog = (*Client)(nil)

// NewClient returns a client.
func NewClient(o ClientOptions) *Client {
	if o.Waiting == nil {
		o.Waiting = func(bool) {}
	}
	c := &Client{options: o, interrupted: make(chan struct{})}
	c.interrupt = sync.OnceFunc(func() { close(c.interrupted) })
	c.http.Transport = &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Dial(ctx) },
		DisableKeepAlives: true, // the connection that matters is that to the host
	}
	return c
}

// Interrupt ends current and later waits for the host with [ErrInterrupted].
func (c *Client) Interrupt() { c.interrupt() }

// Begin tells the host which process is the command of the session, before it starts others.
func (c *Client) Begin(ctx context.Context) error {
	var none struct{}
	return c.send(ctx, beginPath, rand.Text(), none, &none)
}

// Task runs a task command on the host.
func (c *Client) Task(ctx context.Context, r TaskRequest) (response TaskResponse, err error) {
	if r.ID == "" {
		r.ID = rand.Text()
	}
	err = c.send(ctx, taskPath, r.ID, r, &response)
	return response, err
}

// lostError is the failure of a connection.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// send sends a request until it is answered.
func (c *Client) send(ctx context.Context, path, id string, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	if len(body) > MaxRequest {
		return fmt.Errorf("request is larger than %d MiB", MaxRequest>>20)
	}
	end, waiting := time.Now(), false
	if !c.away.Load() {
		end = end.Add(c.options.Wait)
	}
	defer func() {
		if waiting {
			c.options.Waiting(false)
		}
	}()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		answer, err := c.attempt(ctx, path, id, body)
		var lost *lostError
		switch {
		case err == nil:
			c.away.Store(false)
			return decodeAnswer(answer, response)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.As(err, &lost):
			return err
		case !time.Now().Before(end):
			c.away.Store(true)
			return noHost(err)
		}
		if !waiting {
			waiting = true
			c.options.Waiting(true)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.interrupted:
			return ErrInterrupted
		case <-time.After(min(pause, time.Until(end))):
		}
	}
}

func noHost(err error) error {
	return hint.Wrap(fmt.Errorf("%w: %w", ErrNoHost, err), "run %q on the host", "docker ralph attach")
}

// attempt sends a request once. A failed connection is a lostError.
func (c *Client) attempt(ctx context.Context, path, id string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(requestHeader, id)
	if c.options.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, &lostError{err}
	}
	defer func() { _ = response.Body.Close() }() // it was read
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &lostError{err}
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("answer is larger than %d MiB", maxAnswer>>20)
	case response.StatusCode == http.StatusOK:
		return answer, nil
	}
	var f failure
	if json.Unmarshal(answer, &f) != nil || f.Error == "" {
		return nil, fmt.Errorf("docker ralph on the host failed: %s", response.Status)
	}
	return nil, f.err()
}

func decodeAnswer(answer []byte, into any) error {
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("reading the answer of the host: %w", err)
	}
	return nil
}
