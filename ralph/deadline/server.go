package deadline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// maxConnections bounds what an agent can make the first process keep.
const maxConnections = 64

// Server is the first process's side.
type Server struct {
	// Alone tells whether nothing but the first process is left in the sandbox.
	// Then there is nothing to end, whatever was set by those who are gone.
	Alone func() bool

	listener net.Listener
	over     chan struct{}
	places   chan struct{} // holds one for each connection
	mu       sync.Mutex
	due      map[net.Conn]time.Time
	orphans  []time.Time // set by those who are gone
	timer    *time.Timer // of the earliest
	ended    bool
}

// Listen begins to keep the time.
func Listen(ctx context.Context, alone func() bool) (*Server, error) {
	return listen(ctx, address, alone)
}

func listen(ctx context.Context, at string, alone func() bool) (*Server, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", at)
	if err != nil {
		return nil, fmt.Errorf("keeping the time: %w", err)
	}
	s := &Server{Alone: alone, listener: l, over: make(chan struct{}), places: make(chan struct{}, maxConnections), due: map[net.Conn]time.Time{}}
	s.timer = time.AfterFunc(longest, s.look)
	go s.accept()
	return s, nil
}

// Over is closed when the time of somebody is over.
func (s *Server) Over() <-chan struct{} { return s.over }

// Close stops keeping the time.
func (s *Server) Close() { _ = s.listener.Close() }

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			<-time.After(100 * time.Millisecond) // somebody holds all the files that we may open
			continue
		}
		select {
		case s.places <- struct{}{}:
			go s.serve(conn)
		default:
			_ = conn.Close() // no loop needs that many
		}
	}
}

func (s *Server) serve(conn net.Conn) {
	defer func() { <-s.places }()
	defer func() { _ = conn.Close() }()
	defer s.gone(conn)
	r := bufio.NewReaderSize(conn, 64)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		answer := "ok\n"
		if d, err := parse(string(line)); err != nil {
			answer = err.Error() + "\n"
		} else {
			s.set(conn, d)
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
	}
}

func (s *Server) set(conn net.Conn, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d == 0 {
		delete(s.due, conn)
	} else {
		s.due[conn] = time.Now().Add(d)
	}
	s.wind()
}

// gone keeps what somebody has set who did not take it back.
func (s *Server) gone(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.due[conn]; ok {
		delete(s.due, conn)
		s.orphans = append(s.orphans, at)
	}
	s.wind()
}

// pace is how often those who are gone are looked after.
const pace = time.Second

// wind sets the timer to when there is something to do next.
func (s *Server) wind() {
	next := time.Now().Add(longest)
	for _, at := range s.due {
		if at.Before(next) {
			next = at
		}
	}
	wait := time.Until(next)
	if len(s.orphans) > 0 {
		wait = min(wait, pace)
	}
	s.timer.Reset(max(wait, time.Millisecond))
}

// look ends the sandbox if somebody's time is over.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.orphans) > 0 && s.Alone() {
		s.orphans = nil
	}
	now := time.Now()
	over := false
	for _, at := range s.orphans {
		over = over || !at.After(now)
	}
	for _, at := range s.due {
		over = over || !at.After(now)
	}
	if over && !s.ended {
		s.ended = true
		close(s.over)
		return
	}
	s.wind()
}
