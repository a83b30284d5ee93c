package plugin

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lookEvery is how often a waiting read looks whether the terminal is lost, in
// milliseconds.
const lookEvery = 250

// untilLost reads a terminal until it is lost. A read that waits would take what
// is typed for whoever has the terminal then.
func untilLost(from *os.File, lost <-chan struct{}) io.Reader {
	return &lostReader{from, lost}
}

type lostReader struct {
	from *os.File
	lost <-chan struct{}
}

// Read implements [io.Reader].
func (r *lostReader) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(r.from.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, lookEvery)
		select {
		case <-r.lost:
			return 0, io.EOF
		default:
		}
		if n > 0 || err != nil && err != unix.EINTR {
			return r.from.Read(p)
		}
	}
}
