package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// maxDeadlines bounds what an agent can make the first process keep.
const maxDeadlines = 64

// deadlineServer is the first process's side.
type deadlineServer struct {
	// alone reports whether nothing but the first process is left in the sandbox.
	// Then there is nothing to end, whatever was set by those who are gone.
	alone func() bool

	listener net.Listener
	over     chan struct{}
	places   chan struct{} // holds one for each connection
	mu       sync.Mutex
	due      map[net.Conn]time.Time
	orphans  []time.Time // set by those who are gone
	timer    *time.Timer // of the earliest
	ended    bool
}

// listenDeadline begins to keep the time.
func listenDeadline(ctx context.Context, alone func() bool) (*deadlineServer, error) {
	return listenDeadlineAt(ctx, deadlineAddress, alone)
}

func listenDeadlineAt(ctx context.Context, at string, alone func() bool) (*deadlineServer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", at)
	if err != nil {
		return nil, fmt.Errorf("keeping the time: %w", err)
	}
	s := &deadlineServer{alone: alone, listener: l, over: make(chan struct{}), places: make(chan struct{}, maxDeadlines), due: map[net.Conn]time.Time{}}
	s.timer = time.AfterFunc(longestDeadline, s.look)
	go s.accept()
	return s, nil
}

// Over is closed when the time of somebody is over.
func (s *deadlineServer) Over() <-chan struct{} { return s.over }

// Close stops keeping the time.
func (s *deadlineServer) Close() { _ = s.listener.Close() }

func (s *deadlineServer) accept() {
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

func (s *deadlineServer) serve(conn net.Conn) {
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
		if d, err := parseDeadline(string(line)); err != nil {
			answer = err.Error() + "\n"
		} else {
			s.set(conn, d)
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
	}
}

func (s *deadlineServer) set(conn net.Conn, d time.Duration) {
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
func (s *deadlineServer) gone(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.due[conn]; ok {
		delete(s.due, conn)
		s.orphans = append(s.orphans, at)
	}
	s.wind()
}

// deadlinePace is how often those who are gone are looked after.
const deadlinePace = time.Second

// wind sets the timer to when there is something to do next.
func (s *deadlineServer) wind() {
	next := time.Now().Add(longestDeadline)
	for _, at := range s.due {
		if at.Before(next) {
			next = at
		}
	}
	wait := time.Until(next)
	if len(s.orphans) > 0 {
		wait = min(wait, deadlinePace)
	}
	s.timer.Reset(max(wait, time.Millisecond))
}

// look ends the sandbox if somebody's time is over.
func (s *deadlineServer) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.orphans) > 0 && s.alone() {
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
