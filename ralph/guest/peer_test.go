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

func TestPeer(t *testing.T) {
	conn, pid := connected(t), filepath.Base(must(os.Readlink("/proc/self")))
	assert.Equal(t, peerPID(conn), os.Getpid())
	here := uint32(os.Getpid())
	outside, none := wire.Peer{Outside: true, Command: here}, wire.Peer{}
	for name, tc := range map[string]struct {
		stat   string
		others map[string]string
		inside bool
		self   int
		want   wire.Peer
	}{
		"from outside":                {stat: pid + " (ralph) S 0 1", want: outside},
		"a name with parentheses":     {stat: pid + " (a) S 0 (b) R 0 1", want: outside},
		"a child":                     {stat: pid + " (ralph) S 12 1", others: map[string]string{"12": "12 (ralph) S 0 1"}, want: wire.Peer{Command: 12}},
		"a grandchild":                {stat: pid + " (ralph) S 13 1", others: map[string]string{"13": "13 (sh) S 12 1", "12": "12 (ralph) S 0 1"}, want: wire.Peer{Command: 12}},
		"a child of a zombie":         {stat: pid + " (ralph) S 12 1", others: map[string]string{"12": "12 (ralph) Z 0 1"}, want: none},
		"a child of one that ended":   {stat: pid + " (ralph) S 12 1", want: none},
		"an orphan":                   {stat: pid + " (ralph) S 1 1", others: map[string]string{"1": "1 (init) S 0 1"}, want: none},
		"a child with a forged name":  {stat: pid + " (x) S 0 1 1) S 12 1", want: none},
		"one that has ended":          {want: none},
		"a zombie":                    {stat: pid + " (ralph) Z 0 1", want: none},
		"a microVM has no evidence":   {stat: pid + " (ralph) S 0 1", inside: true, want: none},
		"the relay instead of a peer": {stat: pid + " (ralph) S 0 1", self: os.Getpid(), want: none},
	} {
		t.Run(name, func(t *testing.T) {
			const rest = " 1 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 100 1000 100 1\n"
			processes := []fs.PathOp{fs.WithDir(pid)}
			if tc.stat != "" {
				processes[0] = fs.WithDir(pid, fs.WithFile("stat", tc.stat+rest))
			}
			for other, stat := range tc.others {
				processes = append(processes, fs.WithDir(other, fs.WithFile("stat", stat+rest)))
			}
			proc := fs.NewDir(t, "proc", processes...)
			assert.Equal(t, peers{proc.Path(), !tc.inside, tc.self}.of(conn), tc.want)
		})
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}
