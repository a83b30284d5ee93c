// Package session connects a command in a sandbox with this process: it serves HTTP to the processes that connect to
// the socket of "ralph _session" there.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

// Session is a connection to a sandbox.
type Session struct {
	connector
	report func(string)
	server *http.Server
	cancel context.CancelFunc
	done   chan struct{}  // closed when no connection is made any more
	conns  sync.WaitGroup // of the server
}

// timing has the intervals of a session.
type timing struct {
	ready     time.Duration // at most, until "ralph _session" listens
	keepAlive time.Duration // between signs of life
	pause     time.Duration // before the first attempt to connect again; doubles
	maxPause  time.Duration
	stable    time.Duration // after which a connection counts as good
}

func defaults() timing {
	return timing{ready: 20 * time.Second, keepAlive: 10 * time.Second, pause: 200 * time.Millisecond, maxPause: 15 * time.Second, stable: time.Minute}
}

// Serve connects to the sandbox and answers requests with handler until Close. It returns when the first connection
// stands, or if another process serves the session: then this one does so after its end. A connection that breaks is
// made again; report gets warnings.
func Serve(ctx context.Context, d lifecycle.Relayer, sb lifecycle.Sandbox, id string, handler http.Handler, report func(string)) (*Session, error) {
	return serve(ctx, connector{d, sb, id, defaults(), session.WithPeer}, handler, report)
}

func serve(ctx context.Context, c connector, handler http.Handler, report func(string)) (*Session, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	conn, err := c.connect(life)
	if !stop() && err == nil {
		_ = conn.Close()
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, errTaken) {
		cancel()
		return nil, fmt.Errorf("connecting to sandbox %s: %w", c.sandbox.Name, err)
	}
	s := &Session{connector: c, report: report, cancel: cancel, done: make(chan struct{})}
	s.server = s.newServer(life, handler)
	go s.run(life, conn, err)
	return s, nil
}

// Close ends the connection, and waits for the end of requests, whose context is canceled.
func (s *Session) Close() {
	s.cancel()
	_ = s.server.Close()
	<-s.done
	s.conns.Wait()
}

// Bounds of a request.
const (
	requestTimeout = 30 * time.Second // for its header, and for all of it
	answerTimeout  = 2 * time.Minute
	idleTimeout    = 5 * time.Minute
	maxHeader      = 16 << 10
)

func (s *Session) newServer(ctx context.Context, handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // an agent could fill it
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if conn, ok := c.(*peerConn); ok {
				return s.mark(ctx, conn.peer)
			}
			return ctx
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				s.conns.Done()
			}
		},
	}
}

// reportAt is the number of failures at which a lost connection is reported: early attempts to connect again are
// often successful, or the command has just ended with its sandbox.
const reportAt = 3

// run serves a connection, and those that replace it, until ctx is done. Without one, err says why.
func (s *Session) run(ctx context.Context, conn *yamux.Session, err error) {
	defer close(s.done)
	reported := false
	for failures := 0; ; {
		began := time.Now()
		if err == nil {
			err = s.server.Serve(listen(conn))
		}
		if time.Since(began) >= s.stable {
			failures = 0
		}
		for conn = nil; conn == nil; {
			failures++
			if failures >= reportAt && !reported && ctx.Err() == nil && !errors.Is(err, errTaken) {
				reported = true
				s.report(fmt.Sprintf("Warning: lost the connection to sandbox %s, connecting again: %v", s.sandbox.Name, err))
			}
			if !s.wait(ctx, failures) {
				return
			}
			conn, err = s.reconnect(ctx)
		}
		if reported {
			reported = false
			s.report(fmt.Sprintf("Connected to sandbox %s again", s.sandbox.Name))
		}
	}
}

// wait pauses after a number of failures, and reports whether the session goes on.
func (s *Session) wait(ctx context.Context, failures int) bool {
	pause := s.maxPause
	if doubled := s.pause << min(failures-1, 16); doubled < pause {
		pause = doubled
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}
