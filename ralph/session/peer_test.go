package session

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire"
)

// A process of another command in the sandbox, such as the agent of a second loop, gets nothing from a session: it could
// finish the tasks of its agent.
func TestOnlyDescendantsUseASession(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	var began []uint32
	door := func(pid uint32, command string) *Door {
		return NewDoor(DoorOptions{
			Store: s, Session: "s1", Command: command, Token: "secret", Peers: true, PID: pid, Began: func(pid uint32) { began = append(began, pid) },
		})
	}
	list := func(d *Door, peer wire.Peer) (status int) {
		r := httptest.NewRequest(http.MethodPost, taskPath, strings.NewReader(`{"id":"`+rand.Text()+`","args":["list"]}`))
		w := httptest.NewRecorder()
		defer func() {
			if recover() == http.ErrAbortHandler { //nolint:errorlint // as the server does
				status = 0
			}
		}()
		d.ServeHTTP(w, r.WithContext(WithPeer(r.Context(), peer)))
		return w.Code
	}
	begin := func(d *Door, peer wire.Peer, token string) int {
		r := httptest.NewRequest(http.MethodPost, beginPath, strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.WithContext(WithPeer(r.Context(), peer)))
		return w.Code
	}
	const ours, theirs = 7, 8
	for _, command := range []string{"build", "plan", "run", "shell"} {
		d := door(0, command)
		assert.Equal(t, list(d, wire.Peer{Command: ours}), 0, "before the command has begun")
		assert.Equal(t, begin(d, wire.Peer{Command: theirs}, "secret"), http.StatusForbidden, "an agent")
		assert.Equal(t, begin(d, wire.Peer{Command: theirs, Outside: true}, "guess"), http.StatusForbidden, "a program from outside")
		assert.Equal(t, begin(d, wire.Peer{Command: ours, Outside: true}, "secret"), http.StatusOK)
		for _, d := range []*Door{d, door(ours, command)} {
			assert.Equal(t, list(d, wire.Peer{Command: ours}), http.StatusOK)
			assert.Equal(t, list(d, wire.Peer{Command: theirs}), http.StatusForbidden)
			assert.Equal(t, list(d, wire.Peer{Command: theirs, Outside: true}), http.StatusForbidden)
			assert.Equal(t, list(d, wire.Peer{}), http.StatusForbidden, "an orphan")
		}
	}
	assert.DeepEqual(t, began, []uint32{ours, ours, ours, ours})

	microVM := NewDoor(DoorOptions{Store: s, Token: "secret"})
	assert.Equal(t, list(microVM, wire.Peer{}), http.StatusOK)
	assert.Equal(t, begin(microVM, wire.Peer{}, "secret"), http.StatusOK)
	assert.Equal(t, list(microVM, wire.Peer{}), http.StatusOK)
}
