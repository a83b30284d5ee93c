package e2e

import (
	"context"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// The kernel's connector reports to root which programs are started, on the machine
// and in its containers: https://docs.kernel.org/driver-api/connector.html, with
// the messages of linux/cn_proc.h.
const (
	connectorProc = 1          // CN_IDX_PROC, CN_VAL_PROC
	listen        = 1          // PROC_CN_MCAST_LISTEN
	eventExec     = 0x00000002 // PROC_EVENT_EXEC

	netlinkHeader   = unix.NLMSG_HDRLEN
	connectorHeader = 20 // struct cn_msg
	eventHeader     = 16 // what, cpu and time of struct proc_event
)

// execs sends the ID of each process that starts a program, until ctx ends. It
// reports whether the kernel supports that.
func execs(ctx context.Context) (started <-chan int, ok bool) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		return nil, false
	}
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: connectorProc}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}), // to see that ctx has ended
		unix.Sendto(fd, listenMessage(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
	)
	if err != nil {
		_ = unix.Close(fd)
		return nil, false
	}
	pids := make(chan int)
	go func() {
		defer func() { _ = unix.Close(fd) }()
		defer close(pids)
		buf := make([]byte, 4096)
		for ctx.Err() == nil {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err != nil { // nothing has been started
				continue
			}
			event := buf[min(n, netlinkHeader+connectorHeader):n]
			if len(event) >= eventHeader+8 && binary.NativeEndian.Uint32(event) == eventExec {
				pids <- int(binary.NativeEndian.Uint32(event[eventHeader+4:])) // its thread group
			}
		}
	}()
	return pids, true
}

// listenMessage asks for all events.
func listenMessage() []byte {
	const size = netlinkHeader + connectorHeader + 4
	m := make([]byte, size)
	binary.NativeEndian.PutUint32(m[0:], size)
	binary.NativeEndian.PutUint16(m[4:], unix.NLMSG_DONE)
	binary.NativeEndian.PutUint32(m[netlinkHeader:], connectorProc)
	binary.NativeEndian.PutUint32(m[netlinkHeader+4:], connectorProc)
	binary.NativeEndian.PutUint16(m[netlinkHeader+16:], 4) // of what follows
	binary.NativeEndian.PutUint32(m[netlinkHeader+connectorHeader:], listen)
	return m
}
