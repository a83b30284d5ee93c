package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// deadlineAddress is a socket that is no file. Whoever listens first has it, and that is
// the first process.
const deadlineAddress = "@docker-ralph-deadline"

const (
	// deadlineAnswer is how long the first process may take to answer.
	deadlineAnswer = 5 * time.Second
	// longestDeadline is a year.
	longestDeadline = 366 * 24 * time.Hour
)

// Deadline has the sandbox ended if its ralph does not end a run in time, because it
// is stuck, stopped or gone. The first process of the sandbox keeps the time: it
// belongs to another user than the agent, who can neither stop nor kill it, and with
// it ends everything. It guards against what goes wrong, not against an agent that
// takes over ralph itself: both are the same user's.
//
// This is ralph's side. The zero of a pointer is one that keeps nothing.
type Deadline struct {
	conn   net.Conn
	answer *bufio.Reader
}

// ConnectDeadline connects to the first process of this sandbox. Where there is none
// that keeps the time, there is no deadline and no error.
func ConnectDeadline(ctx context.Context) (*Deadline, error) {
	return connectDeadline(ctx, deadlineAddress)
}

func connectDeadline(ctx context.Context, at string) (*Deadline, error) {
	ctx, cancel := context.WithTimeout(ctx, deadlineAnswer)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", at)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking the sandbox to keep the time: %w", err)
	}
	return &Deadline{conn, bufio.NewReader(conn)}, nil
}

// Set has the sandbox ended after d, instead of what was set before. With 0
// nothing is ended.
func (k *Deadline) Set(d time.Duration) error {
	if k == nil {
		return nil
	}
	if err := k.set(d); err != nil {
		return fmt.Errorf("asking the sandbox to keep the time: %w", err)
	}
	return nil
}

func (k *Deadline) set(d time.Duration) error {
	if err := k.conn.SetDeadline(time.Now().Add(deadlineAnswer)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(k.conn, "%d\n", d.Milliseconds()); err != nil {
		return err
	}
	said, err := k.answer.ReadString('\n')
	if err != nil {
		return err
	}
	if said != "ok\n" {
		return errors.New(strings.TrimSpace(said))
	}
	return nil
}

// Close lets go of the first process. What is set stays set: whoever has set it
// and is gone did not end its run.
func (k *Deadline) Close() {
	if k != nil {
		_ = k.conn.Close()
	}
}

// parseDeadline reads how long a ralph asks for.
func parseDeadline(line string) (time.Duration, error) {
	ms, err := strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 64)
	if err != nil || ms < 0 || ms > longestDeadline.Milliseconds() {
		return 0, errors.New("not a number of milliseconds up to a year")
	}
	return time.Duration(ms) * time.Millisecond, nil
}
