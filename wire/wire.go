// Package wire has the paths, environment variables and exit codes that the host and
// the sandbox share.
package wire

import (
	"encoding/binary"
	"strings"
)

const (
	// MountPoint is where the read-only volume with ralph is mounted in a
	// container sandbox.
	MountPoint = "/opt/ralph"
	// ConfigPoint is where a container sandbox sees the folder with the user's
	// configuration of the agent.
	ConfigPoint = "/run/docker-ralph-config"
	// ProxyDir is where a sandbox without a network has the sockets of its proxy, each
	// named by its port.
	ProxyDir = "/run/docker-ralph-proxy"
	// ProxyAddress is where the first process of such a sandbox listens in place of the
	// proxy. Programs of the agent that listen on 127.0.0.1 do not get in its way.
	ProxyAddress = "127.0.0.2"
	// Program is the file name of ralph.
	Program = "ralph"
	// ReadableDir is the directory beside ralph with a copy that everybody can read, for container runtimes that start
	// no other programs.
	ReadableDir = "readable"
	// DispatchEnv marks the process of one dispatch, so that a signal can be
	// delivered to it.
	DispatchEnv = "RALPH_DISPATCH"
	// InitEnv is set for commands that an engine runs in a container. They wait for its init process.
	InitEnv = "RALPH_INIT"
	// ServicePrefix begins the ID of a short process of docker-ralph itself, such as a fetch
	// of commits. IDs of commands have no lower-case letters.
	ServicePrefix = "s"
	// PrivateGitDir is where a sandbox has the git directory of its clone mounted, whether or
	// not it is also mounted over the worktree's .git.
	PrivateGitDir = "/opt/ralph-git/own"
	// CloneDir is where a sandbox with a clone of the worktree has its volume mounted a
	// second time.
	CloneDir = "/opt/ralph-git/work"
	// BranchEnv names the branch that the worktree has on the host. An agent can have
	// another one checked out when a loop begins.
	BranchEnv = "RALPH_BRANCH"
	// SubdirEnv is the subdirectory of the worktree in which a command runs, if the clone has it.
	SubdirEnv = "RALPH_SUBDIR"
	// SessionEnv is the ID of the session that joins a command with its process on the host.
	SessionEnv = "RALPH_SESSION"
	// SessionTokenEnv marks the requests of the command itself in its session.
	SessionTokenEnv = "RALPH_SESSION_TOKEN"
	// SessionDir is where a container has the sockets of its sessions.
	SessionDir = "/run/ralph"
	// SessionReady is what "ralph _session" prints when it listens. A multiplexed connection follows, each of whose
	// streams begins with a [Peer].
	SessionReady = "ralph-session 2\n"
	// SessionTaken is what it prints instead if another one relays the session.
	SessionTaken = "ralph-session 0\n"
	// LostEnv is the reason of a restart, for a loop that continues the log of one
	// that died with its sandbox. Both have the same dispatch.
	LostEnv = "RALPH_LOST"
)

// Ports of a sandbox's proxy.
const (
	PortProxy  = 3128 // CONNECT, and plain HTTP by absolute URL
	PortRoutes = 3129 // requests to which the proxy adds a key
	PortHTTP   = 80   // plain HTTP by Host
	PortTLS    = 443  // TLS by SNI
	PortDNS    = 53   // UDP and TCP
)

// ProxyPorts returns the TCP ports of a sandbox's proxy.
func ProxyPorts() []int { return []int{PortProxy, PortRoutes, PortHTTP, PortTLS, PortDNS} }

// Dir returns the name of the directory, below [MountPoint], of the ralph
// whose SHA-256 is hash (64 hex digits).
func Dir(hash string) string { return hash[:12] }

// IsService reports whether a dispatch is a process of docker-ralph itself.
func IsService(id string) bool { return strings.HasPrefix(id, ServicePrefix) }

// Peer is a process in a sandbox at the other end of a stream of a session. In a microVM, nothing is known.
type Peer struct {
	// Outside says that the process was started from outside of the container.
	Outside bool
	// Command is the PID of the process from outside that is or has started it; 0 if unknown.
	Command uint32
}

// PeerSize is the size of a [Peer] at the beginning of a stream, in bytes.
const PeerSize = 5

// AppendTo appends the bytes of a stream.
func (p Peer) AppendTo(b []byte) []byte {
	kind := byte('A')
	if p.Outside {
		kind = 'L'
	}
	return binary.BigEndian.AppendUint32(append(b, kind), p.Command)
}

// PeerOf returns the peer of the first [PeerSize] bytes of a stream.
func PeerOf(b []byte) Peer {
	return Peer{Outside: b[0] == 'L', Command: binary.BigEndian.Uint32(b[1:PeerSize])}
}

// DispatchMark is the last argument of ralph as the process of a dispatch. It identifies a loop to others,
// which cannot read its environment.
func DispatchMark(id string) string { return DispatchEnv + "=" + id }

// ExitNoGit is the exit code of a loop whose agent has broken git in the worktree.
const ExitNoGit = 11

// ExitQuestion is the exit code of a loop with nothing left but questions to the user.
const ExitQuestion = 12

// ExitCheck is the exit code of a loop whose checks fail regardless of its tasks.
const ExitCheck = 13

// How a loop has ended whose commits are not on the user's branch, although it has succeeded in its
// sandbox. Only the host knows.
const (
	ExitUnmerged = 14
	StopUnmerged = "unmerged"
)

// Signing commits in a sandbox.
const (
	// SignProgram is the name by which git calls ralph to have something signed.
	SignProgram = "ralph-sign"
	// SignDir is the directory of a container with the signing socket.
	SignDir = "/run/docker-ralph-sign"
	// SignSocketEnv holds the path of the signing socket.
	SignSocketEnv = "RALPH_SIGN_SOCKET"
	// SignMagic and SignNamespace begin what git has signed, in the format of
	// OpenSSH's PROTOCOL.sshsig.
	SignMagic     = "SSHSIG"
	SignNamespace = "git"
)

// CacheEnv names the directory of a sandbox with its user's package caches.
const CacheEnv = "RALPH_CACHE_DIR"

// ExitDeadline is the exit code of a sandbox that its watchdog has stopped because a
// run exceeded its time limit.
const ExitDeadline = 124
