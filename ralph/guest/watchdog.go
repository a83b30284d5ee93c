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

// watchdogAddress is an abstract socket. The init process starts first and so owns it.
const watchdogAddress = "@docker-ralph-deadline"

const (
	// watchdogTimeout bounds one request.
	watchdogTimeout = 5 * time.Second
	maxDeadline     = 366 * 24 * time.Hour
)

// Watchdog is a client of the watchdog in the sandbox's init process, which stops the
// sandbox if ralph does not end a run in time because it hangs, is stopped or was
// killed. Init runs as another user than the agent, which cannot stop or kill it. The
// watchdog guards against failures, not against an agent that takes over ralph itself,
// which runs as the same user. A nil Watchdog does nothing.
type Watchdog struct {
	conn   net.Conn
	answer *bufio.Reader
}

// ConnectWatchdog connects to this sandbox's watchdog. It returns nil if there is none.
func ConnectWatchdog(ctx context.Context) (*Watchdog, error) {
	return connectWatchdog(ctx, watchdogAddress)
}

func connectWatchdog(ctx context.Context, at string) (*Watchdog, error) {
	ctx, cancel := context.WithTimeout(ctx, watchdogTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", at)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to the sandbox's watchdog: %w", err)
	}
	return &Watchdog{conn, bufio.NewReader(conn)}, nil
}

// Set replaces the deadline by one after d; 0 clears it.
func (k *Watchdog) Set(d time.Duration) error {
	if k == nil {
		return nil
	}
	if err := k.set(d); err != nil {
		return fmt.Errorf("setting the sandbox's watchdog: %w", err)
	}
	return nil
}

func (k *Watchdog) set(d time.Duration) error {
	if err := k.conn.SetDeadline(time.Now().Add(watchdogTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(k.conn, "%d\n", d.Milliseconds()); err != nil {
		return err
	}
	reply, err := k.answer.ReadString('\n')
	if err != nil {
		return err
	}
	if reply != "ok\n" {
		return errors.New(strings.TrimSpace(reply))
	}
	return nil
}

// Close disconnects. The deadline stays set: a client that exits without clearing it
// has not ended its run.
func (k *Watchdog) Close() {
	if k != nil {
		_ = k.conn.Close()
	}
}

func parseDeadline(line string) (time.Duration, error) {
	ms, err := strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 64)
	if err != nil || ms < 0 || ms > maxDeadline.Milliseconds() {
		return 0, errors.New("not a number of milliseconds up to a year")
	}
	return time.Duration(ms) * time.Millisecond, nil
}
