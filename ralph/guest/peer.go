package guest

import (
	"net"
	"os"

	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/sys/unix"
)

// peers tells who connects to a socket.
type peers struct {
	proc string
	// outside means that processes can be started from outside of the PID namespace: this is a container.
	outside bool
	self    int // PID
}

// of returns who is at the other end of a connection. No process in a container can have the parent 0, which is
// that of processes started from outside; nor can it become one, since orphans belong to PID 1.
//
// The kernel has recorded the peer's PID when it connected. It is looked up at once: to pass for a later process of
// the same PID, a peer would have to end, and all other PIDs to be used, before the connection is accepted.
func (p peers) of(conn *net.UnixConn) byte {
	pid := peerPID(conn)
	// PID 1 has the parent 0 as well, and earlier versions of gVisor report the caller instead of the peer.
	if !p.outside || pid <= 1 || pid == p.self {
		return wire.PeerAgent
	}
	stat := sysinfo.Stat(p.proc, pid)
	if stat == nil || stat[sysinfo.StatParent] != "0" || stat[sysinfo.StatState] == "Z" || stat[sysinfo.StatState] == "X" {
		return wire.PeerAgent
	}
	return wire.PeerLoop
}

// peerPID returns the PID of the process that has connected, and 0 if it is unknown.
func peerPID(conn *net.UnixConn) int {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	var cred *unix.Ucred
	controlErr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if controlErr != nil || err != nil {
		return 0
	}
	return int(cred.Pid)
}

func sandboxPeers() peers { return peers{procDir, isContainer(), os.Getpid()} }
