package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// maxWatchdogClients bounds the resources that an agent can use.
const maxWatchdogClients = 64

// watchdogServer runs in the init process.
type watchdogServer struct {
	// alone reports whether init is the only process: then orphaned deadlines are
	// void.
	alone func() bool

	listener net.Listener
	expired  chan struct{}
	slots    chan struct{} // one element per connection
	once     sync.Once
	mu       sync.Mutex
	due      map[net.Conn]time.Time
	orphans  []time.Time // of closed connections
	timer    *time.Timer
}

func listenWatchdog(ctx context.Context, at string, alone func() bool) (*watchdogServer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", at)
	if err != nil {
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	s := &watchdogServer{alone: alone, listener: l, expired: make(chan struct{}), slots: make(chan struct{}, maxWatchdogClients), due: map[net.Conn]time.Time{}}
	s.timer = time.AfterFunc(maxDeadline, s.check)
	go s.accept()
	return s, nil
}

func (s *watchdogServer) Close() { _ = s.listener.Close() }

func (s *watchdogServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			<-time.After(100 * time.Millisecond) // too many open files in the system
			continue
		}
		select {
		case s.slots <- struct{}{}:
			go s.serve(conn)
		default:
			_ = conn.Close()
		}
	}
}

func (s *watchdogServer) serve(conn net.Conn) {
	defer func() { <-s.slots }()
	defer func() { _ = conn.Close() }()
	defer s.disconnect(conn)
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

func (s *watchdogServer) set(conn net.Conn, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d == 0 {
		delete(s.due, conn)
	} else {
		s.due[conn] = time.Now().Add(d)
	}
	s.resetTimer()
}

// disconnect keeps a deadline that the client did not clear.
func (s *watchdogServer) disconnect(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.due[conn]; ok {
		delete(s.due, conn)
		s.orphans = append(s.orphans, at)
	}
	s.resetTimer()
}

// orphanCheckInterval is how often the server checks whether orphaned deadlines are void.
const orphanCheckInterval = time.Second

// resetTimer schedules the next check.
func (s *watchdogServer) resetTimer() {
	next := time.Now().Add(maxDeadline)
	for _, at := range s.due {
		if at.Before(next) {
			next = at
		}
	}
	wait := time.Until(next)
	if len(s.orphans) > 0 {
		wait = min(wait, orphanCheckInterval)
	}
	s.timer.Reset(max(wait, time.Millisecond))
}

// check closes expired once if a deadline has passed.
func (s *watchdogServer) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.orphans) > 0 && s.alone() {
		s.orphans = nil
	}
	passed := func(at time.Time) bool { return !at.After(time.Now()) }
	if slices.ContainsFunc(slices.AppendSeq(slices.Clone(s.orphans), maps.Values(s.due)), passed) {
		s.once.Do(func() { close(s.expired) })
		return
	}
	s.resetTimer()
}
