package plugin

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
)

// fakeLink is a network on which a connection takes a second.
type fakeLink struct {
	mu   sync.Mutex
	ends []net.Conn // of the other side
}

func (l *fakeLink) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ends)
}

func (l *fakeLink) dial(context.Context) (net.Conn, error) {
	conn, end := net.Pipe()
	l.mu.Lock()
	l.ends = append(l.ends, end)
	l.mu.Unlock()
	<-time.After(time.Second)
	return conn, nil
}

func TestConnectionsAreOpenedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var link fakeLink
		d := &dialer{dial: link.dial}
		began := time.Now()
		d.ahead(t.Context(), 2)
		synctest.Wait()
		assert.Equal(t, link.count(), 2)
		for _, after := range []time.Duration{time.Second, time.Second, 2 * time.Second} { // the third one is new
			conn, err := d.DialContext(t.Context(), "tcp", "")
			assert.NilError(t, err)
			assert.NilError(t, conn.Close())
			assert.Equal(t, time.Since(began), after)
		}
		assert.Equal(t, link.count(), 3)
	})
}

// Before there is a login to share, only one connection logs in.
func TestConnectionsWaitForTheLogin(t *testing.T) {
	for _, tc := range []struct {
		name     string
		loggedIn func(context.Context) bool
		dials    int
	}{
		{"no login is needed", nil, 3},
		{"logged in", func(context.Context) bool { return true }, 3},
		{"not logged in", func(context.Context) bool { return false }, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var link fakeLink
				d := &dialer{dial: link.dial, spares: 2, loggedIn: tc.loggedIn}
				connected := d.begin(t.Context())
				synctest.Wait()
				assert.Equal(t, link.count(), tc.dials)
				connected()
				synctest.Wait()
				assert.Equal(t, link.count(), 3)
				<-time.After(2 * spareExpires)
			})
		})
	}
}

func TestUnusedConnectionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var link fakeLink
		d := &dialer{dial: link.dial}
		d.ahead(t.Context(), 1)
		<-time.After(spareExpires)
		_, err := link.ends[0].Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
		conn, err := d.DialContext(t.Context(), "tcp", "")
		assert.NilError(t, err)
		assert.NilError(t, conn.Close())
		assert.Equal(t, link.count(), 2)
	})
}

// A host that drops packets does not answer at all.
func TestDialingIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		conn, end := net.Pipe()
		d := &dialer{dial: func(context.Context) (net.Conn, error) {
			<-answers
			return conn, nil
		}}
		began := time.Now()
		_, err := d.DialContext(t.Context(), "tcp", "")
		assert.Check(t, errors.Is(err, context.DeadlineExceeded))
		assert.Equal(t, time.Since(began), connectTimeout)
		close(answers)
		_, err = end.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
	})
}
