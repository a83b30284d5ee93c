package guest

import (
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

type watchdogTest struct {
	*watchdogServer
	at    string
	alone *atomic.Bool
}

func newWatchdogTest(t *testing.T) watchdogTest {
	t.Helper()
	at := filepath.Join(t.TempDir(), "s")
	alone := new(atomic.Bool)
	s, err := listenWatchdog(t.Context(), at, alone.Load)
	assert.NilError(t, err)
	t.Cleanup(s.Close)
	return watchdogTest{s, at, alone}
}

func (s watchdogTest) client(t *testing.T) *Watchdog {
	t.Helper()
	k, err := connectWatchdog(t.Context(), s.at)
	assert.NilError(t, err)
	t.Cleanup(k.Close)
	return k
}

func (s watchdogTest) hasExpired() bool {
	select {
	case <-s.expired:
		return true
	default:
		return false
	}
}

func (s watchdogTest) waitExpired(t *testing.T) {
	t.Helper()
	select {
	case <-s.expired:
	case <-time.After(20 * time.Second):
		t.Fatal("the deadline did not expire")
	}
}

func TestWatchdogExpires(t *testing.T) {
	s := newWatchdogTest(t)
	began := time.Now()
	assert.NilError(t, s.client(t).Set(300*time.Millisecond))
	assert.Assert(t, !s.hasExpired())
	s.waitExpired(t)
	assert.Assert(t, time.Since(began) >= 300*time.Millisecond)
}

func TestOtherClientsCannotClearADeadline(t *testing.T) {
	s := newWatchdogTest(t)
	assert.NilError(t, s.client(t).Set(300*time.Millisecond))
	other := s.client(t)
	assert.NilError(t, other.Set(time.Hour))
	assert.NilError(t, other.Set(0))
	s.waitExpired(t)
}

func TestSetReplacesTheDeadline(t *testing.T) {
	s := newWatchdogTest(t)
	k := s.client(t)
	assert.NilError(t, k.Set(200*time.Millisecond))
	assert.NilError(t, k.Set(time.Hour))
	assert.NilError(t, k.Set(200*time.Millisecond))
	assert.NilError(t, k.Set(0))
	<-time.After(500 * time.Millisecond) // it must not expire
	assert.Assert(t, !s.hasExpired())
	assert.NilError(t, k.Set(100*time.Millisecond))
	s.waitExpired(t)
}

func TestDeadlineSurvivesDisconnect(t *testing.T) {
	s := newWatchdogTest(t)
	k := s.client(t)
	assert.NilError(t, k.Set(500*time.Millisecond))
	k.Close()
	s.waitExpired(t)
}

func TestOrphanedDeadlineIsVoidWithoutProcesses(t *testing.T) {
	s := newWatchdogTest(t)
	k := s.client(t)
	assert.NilError(t, k.Set(3*time.Second))
	k.Close()
	s.alone.Store(true)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.orphans)+len(s.due) > 0 {
			return poll.Continue("the deadline is still set")
		}
		return poll.Success()
	}, poll.WithTimeout(10*time.Second))
	assert.Assert(t, !s.hasExpired())
}

func TestWatchdogRejectsInvalidDeadlines(t *testing.T) {
	s := newWatchdogTest(t)
	k := s.client(t)
	assert.ErrorContains(t, k.Set(-time.Second), "not a number")
	assert.ErrorContains(t, k.Set(2*maxDeadline), "not a number")
	assert.NilError(t, k.Set(time.Hour))

	conn, err := net.Dial("unix", s.at)
	assert.NilError(t, err)
	_, err = conn.Write(make([]byte, 1<<20)) // no newline
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	assert.Assert(t, err != nil, "an overlong line closes the connection")
	assert.Assert(t, !s.hasExpired())
}

func TestWatchdogLimitsConnections(t *testing.T) {
	s := newWatchdogTest(t)
	for range maxWatchdogClients {
		assert.NilError(t, s.client(t).Set(time.Hour))
	}
	assert.Assert(t, s.client(t).Set(time.Hour) != nil)
}

func TestConnectWithoutWatchdog(t *testing.T) {
	k, err := connectWatchdog(t.Context(), filepath.Join(t.TempDir(), "s"))
	assert.NilError(t, err)
	assert.Assert(t, k == nil)
	assert.NilError(t, k.Set(time.Second))
	k.Close()
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"0\n", "1500\n", "-1\n", "x\n", "", "9223372036854775807\n"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		d, err := parseDeadline(line)
		assert.Assert(t, err != nil || d >= 0 && d <= maxDeadline)
	})
}
