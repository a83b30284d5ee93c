package guest

import (
	"net"
	"os"
	"strconv"

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
// that of processes started from outside; nor can it become one, since orphans belong to PID 1, or to a loop above them.
//
// The kernel has recorded the peer's PID when it connected. It is looked up at once: to pass for a later process of
// the same PID, a peer would have to end, and all other PIDs to be used, before the connection is accepted.
func (p peers) of(conn *net.UnixConn) wire.Peer {
	pid := peerPID(conn)
	// PID 1 has the parent 0 as well, and earlier versions of gVisor report the caller instead of the peer.
	if !p.outside || pid <= 1 || pid == p.self {
		return wire.Peer{}
	}
	for range ancestryTries {
		if command := p.command(pid); command != 0 {
			return wire.Peer{Outside: command == pid, Command: uint32(command)} //nolint:gosec // a PID is positive
		}
	}
	return wire.Peer{}
}

// ancestryTries is how often the ancestors of a process are looked up: one of them may end meanwhile.
const ancestryTries = 3

// command returns the process from outside that is a process or its ancestor; 0 if there is none.
func (p peers) command(pid int) int {
	for pid > 1 {
		stat := sysinfo.Stat(p.proc, pid)
		if stat == nil || stat[sysinfo.StatState] == "Z" || stat[sysinfo.StatState] == "X" {
			return 0
		}
		parent, err := strconv.Atoi(stat[sysinfo.StatParent])
		if err != nil {
			return 0
		}
		if parent == 0 {
			return pid
		}
		pid = parent
	}
	return 0
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
