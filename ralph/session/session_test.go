package session

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sqlshell"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire"
)

func newStore(t testing.TB) *backlog.Store {
	t.Helper()
	s, err := backlog.OpenHost(t.Context(), filepath.Join(t.TempDir(), "shop", "tasks.db"), backlog.Scope{Repo: "acme/shop", Branch: "main"})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, s.Close()) })
	return s
}

func add(t *testing.T, s *backlog.Store, slugs ...string) {
	t.Helper()
	for _, slug := range slugs {
		assert.NilError(t, s.Create(t.Context(), backlog.NewTask{Slug: slug, Title: "Title of " + slug, Priority: 2}))
	}
}

func claim(t *testing.T, s *backlog.Store, slug, agent string) {
	t.Helper()
	_, err := s.Claim(t.Context(), backlog.ClaimOptions{Slug: slug, Agent: agent, Lease: time.Hour})
	assert.NilError(t, err)
}

// claimBefore claims a task whose lease has expired.
func claimBefore(t *testing.T, s *backlog.Store, slug, agent string) {
	t.Helper()
	claim(t, s, slug, agent)
	expire := "UPDATE tasks SET lease_expires_at = '2001-01-01 00:00:00' WHERE slug = '" + slug + "'"
	_, err := sqlshell.Run(t.Context(), filepath.Join(s.Top(), "shop", "tasks.db"), expire)
	assert.NilError(t, err)
}

// listen serves a door on a unix socket, for the loop or for others in the sandbox, and returns how to connect to it.
func listen(t *testing.T, handler http.Handler, loop bool) func(context.Context) (net.Conn, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sock")
	listener, err := net.Listen("unix", path)
	assert.NilError(t, err)
	server := httptest.NewUnstartedServer(handler)
	assert.NilError(t, server.Listener.Close())
	server.Listener = listener
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return WithPeer(ctx, wire.Peer{Outside: loop, Command: 7})
	}
	server.Start()
	t.Cleanup(server.Close)
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", path) }
}

func connect(t *testing.T, o DoorOptions, loop bool) *Client {
	t.Helper()
	o.Token, o.Command = "secret", cmp.Or(o.Command, "build")
	c := ClientOptions{Dial: listen(t, NewDoor(o), loop)}
	if loop {
		c.Token = o.Token
	}
	return NewClient(c)
}

// runTask runs a task command as a program in the sandbox does.
func runTask(t *testing.T, c *Client, agent string, args ...string) TaskResponse {
	t.Helper()
	r, err := c.Task(t.Context(), TaskRequest{Args: args, Agent: agent})
	assert.NilError(t, err)
	return r
}
