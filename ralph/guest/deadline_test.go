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

type timekeeper struct {
	*deadlineServer
	at    string
	alone *atomic.Bool
}

func newTimekeeper(t *testing.T) timekeeper {
	t.Helper()
	at := filepath.Join(t.TempDir(), "s")
	alone := new(atomic.Bool)
	s, err := listenDeadlineAt(t.Context(), at, alone.Load)
	assert.NilError(t, err)
	t.Cleanup(s.Close)
	return timekeeper{s, at, alone}
}

func (s timekeeper) keeper(t *testing.T) *Deadline {
	t.Helper()
	k, err := connectDeadline(t.Context(), s.at)
	assert.NilError(t, err)
	t.Cleanup(k.Close)
	return k
}

func (s timekeeper) isOver() bool {
	select {
	case <-s.Over():
		return true
	default:
		return false
	}
}

func (s timekeeper) ends(t *testing.T) {
	t.Helper()
	select {
	case <-s.Over():
	case <-time.After(20 * time.Second):
		t.Fatal("the sandbox goes on")
	}
}

func TestTimeIsOver(t *testing.T) {
	s := newTimekeeper(t)
	began := time.Now()
	assert.NilError(t, s.keeper(t).Set(300*time.Millisecond))
	assert.Assert(t, !s.isOver())
	s.ends(t)
	assert.Assert(t, time.Since(began) >= 300*time.Millisecond)
}

func TestNobodyElseTakesADeadlineBack(t *testing.T) {
	s := newTimekeeper(t)
	assert.NilError(t, s.keeper(t).Set(300*time.Millisecond))
	other := s.keeper(t)
	assert.NilError(t, other.Set(time.Hour))
	assert.NilError(t, other.Set(0))
	s.ends(t)
}

func TestALaterDeadlineReplacesAnEarlierOne(t *testing.T) {
	s := newTimekeeper(t)
	k := s.keeper(t)
	assert.NilError(t, k.Set(200*time.Millisecond))
	assert.NilError(t, k.Set(time.Hour))
	assert.NilError(t, k.Set(200*time.Millisecond))
	assert.NilError(t, k.Set(0))
	<-time.After(500 * time.Millisecond) // nothing happens, and that is the point
	assert.Assert(t, !s.isOver())
	assert.NilError(t, k.Set(100*time.Millisecond))
	s.ends(t)
}

func TestWhoIsGoneHasNotTakenItsDeadlineBack(t *testing.T) {
	s := newTimekeeper(t)
	k := s.keeper(t)
	assert.NilError(t, k.Set(500*time.Millisecond))
	k.Close()
	s.ends(t)
}

func TestNothingIsLeftToEnd(t *testing.T) {
	s := newTimekeeper(t)
	k := s.keeper(t)
	assert.NilError(t, k.Set(3*time.Second))
	k.Close()
	s.alone.Store(true)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.orphans)+len(s.due) > 0 {
			return poll.Continue("it is still set")
		}
		return poll.Success()
	}, poll.WithTimeout(10*time.Second))
	assert.Assert(t, !s.isOver())
}

func TestWhatIsNoNumberIsRefused(t *testing.T) {
	s := newTimekeeper(t)
	k := s.keeper(t)
	assert.ErrorContains(t, k.Set(-time.Second), "not a number")
	assert.ErrorContains(t, k.Set(2*longestDeadline), "not a number")
	assert.NilError(t, k.Set(time.Hour))

	conn, err := net.Dial("unix", s.at)
	assert.NilError(t, err)
	_, err = conn.Write(make([]byte, 1<<20)) // without end
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	assert.Assert(t, err != nil, "who does not come to an end is thrown out")
	assert.Assert(t, !s.isOver())
}

func TestConnectionsAreBounded(t *testing.T) {
	s := newTimekeeper(t)
	for range maxDeadlines {
		assert.NilError(t, s.keeper(t).Set(time.Hour))
	}
	assert.Assert(t, s.keeper(t).Set(time.Hour) != nil)
}

func TestWhereNobodyKeepsTheTime(t *testing.T) {
	k, err := connectDeadline(t.Context(), filepath.Join(t.TempDir(), "s"))
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
		assert.Assert(t, err != nil || d >= 0 && d <= longestDeadline)
	})
}
