package guest

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/docker-ralph/docker-ralph/wire"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

// connected returns the accepted end of a connection of this process.
func connected(t *testing.T) *net.UnixConn {
	t.Helper()
	l, err := listenSocket(t.Context(), filepath.Join(t.TempDir(), "s"))
	assert.NilError(t, err)
	defer func() { assert.Check(t, l.Close()) }()
	client, err := net.Dial("unix", l.Addr().String())
	assert.NilError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	conn, err := l.AcceptUnix()
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestPeerFromOutsideIsTheLoop(t *testing.T) {
	conn, pid := connected(t), filepath.Base(must(os.Readlink("/proc/self")))
	assert.Equal(t, peerPID(conn), os.Getpid())
	for name, tc := range map[string]struct {
		stat   string
		inside bool
		self   int
		want   byte
	}{
		"from outside":                {stat: pid + " (ralph) S 0 1", want: wire.PeerLoop},
		"a name with parentheses":     {stat: pid + " (a) S 0 (b) R 0 1", want: wire.PeerLoop},
		"a child":                     {stat: pid + " (ralph) S 12 1", want: wire.PeerAgent},
		"an orphan":                   {stat: pid + " (ralph) S 1 1", want: wire.PeerAgent},
		"a child with a forged name":  {stat: pid + " (x) S 0 1 1) S 12 1", want: wire.PeerAgent},
		"one that has ended":          {want: wire.PeerAgent},
		"a zombie":                    {stat: pid + " (ralph) Z 0 1", want: wire.PeerAgent},
		"a microVM has no evidence":   {stat: pid + " (ralph) S 0 1", inside: true, want: wire.PeerAgent},
		"the relay instead of a peer": {stat: pid + " (ralph) S 0 1", self: os.Getpid(), want: wire.PeerAgent},
	} {
		t.Run(name, func(t *testing.T) {
			stat := ""
			if tc.stat != "" {
				stat = tc.stat + " 1 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 100 1000 100 1\n"
			}
			proc := fs.NewDir(t, "proc", fs.WithDir(pid, fs.WithFile("stat", stat)))
			assert.Equal(t, string(peers{proc.Path(), !tc.inside, tc.self}.of(conn)), string(tc.want))
		})
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}
