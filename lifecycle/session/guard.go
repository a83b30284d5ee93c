package session

import (
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// Frames of the multiplexer: a header of version, type, flags (2 bytes), stream (4) and length (4), which for data is
// that of the body.
const (
	headerSize = 12
	typeData   = 0
	typePing   = 2
	flagQuery  = 1
)

// maxPings is how many queries for a sign of life may arrive in a minute. The relay sends two.
const maxPings = 60

var errPings = errors.New("too many pings")

// guard breaks a connection that sends queries without end: the multiplexer starts a goroutine for each.
type guard struct {
	io.ReadWriteCloser
	header []byte // the part of the current one that was read
	body   uint32 // bytes that follow
	pings  int
	since  time.Time // when pings was 0
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.ReadWriteCloser.Read(p)
	g.follow(p[:n])
	if g.pings > maxPings && time.Since(g.since) > time.Minute {
		g.pings, g.since = 0, time.Now()
	}
	if g.pings > maxPings {
		return 0, errPings
	}
	return n, err
}

// follow counts the queries in what was read.
func (g *guard) follow(p []byte) {
	for len(p) > 0 {
		if g.body > 0 {
			n := min(uint64(len(p)), uint64(g.body))
			g.body -= uint32(n)
			p = p[n:]
			continue
		}
		n := min(len(p), headerSize-len(g.header))
		g.header, p = append(g.header, p[:n]...), p[n:]
		if len(g.header) < headerSize {
			return
		}
		switch flags := binary.BigEndian.Uint16(g.header[2:]); {
		case g.header[1] == typeData:
			g.body = binary.BigEndian.Uint32(g.header[8:])
		case g.header[1] == typePing && flags&flagQuery != 0:
			g.pings++
		}
		g.header = g.header[:0]
	}
}
