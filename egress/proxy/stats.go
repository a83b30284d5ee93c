package proxy

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/docker-ralph/docker-ralph/egress"
)

// maxCounted bounds the memory for hosts that are counted one by one. An agent
// can think of any number of names, even below an allowed wildcard.
const maxCounted = 1024

// others counts for all hosts beyond that.
const others = "(others)"

type hostPort struct {
	host string
	port uint16
}

type counters struct {
	allowed, refused, sent, received atomic.Int64
}

type stats struct {
	mu    sync.Mutex
	hosts map[hostPort]*counters
}

func newStats() *stats { return &stats{hosts: map[hostPort]*counters{}} }

// of returns the counters of a host, for as long as they are wanted.
func (s *stats) of(host string, port uint16) *counters {
	if len(host) > maxLogged {
		host = host[:maxLogged]
	}
	key := hostPort{host, port}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.hosts[key]
	if !ok && len(s.hosts) >= maxCounted {
		key = hostPort{host: others}
		c, ok = s.hosts[key]
	}
	if !ok {
		c = &counters{}
		key.host = strings.Clone(key.host) // it may be a part of a long request
		s.hosts[key] = c
	}
	return c
}

func (s *stats) decision(v egress.Verdict) {
	c := s.of(v.Host, v.Port)
	if v.Allowed {
		c.allowed.Add(1)
	} else {
		c.refused.Add(1)
	}
}

// list returns all of them, those with the most bytes first.
func (s *stats) list() []egress.HostStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]egress.HostStats, 0, len(s.hosts))
	for key, c := range s.hosts {
		list = append(list, egress.HostStats{
			Host: key.host, Port: key.port,
			Allowed: c.allowed.Load(), Refused: c.refused.Load(),
			Sent: c.sent.Load(), Received: c.received.Load(),
		})
	}
	slices.SortFunc(list, func(a, b egress.HostStats) int {
		return cmp.Or(
			cmp.Compare(b.Sent+b.Received, a.Sent+a.Received),
			cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return list
}
