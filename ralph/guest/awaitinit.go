package guest

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"
)

// initTimeout bounds the start of the init process.
const initTimeout = 30 * time.Second

// AwaitInit waits, in a command that an engine runs in a container, until the init process is
// ready: an agent could take the ports of the proxy before, and a loop would find no watchdog.
// The engine runs a command as soon as the init process exists.
func AwaitInit(ctx context.Context) error { return awaitInit(ctx, watchdogAddress, initTimeout) }

// awaitInit waits for the watchdog, which init starts last.
func awaitInit(ctx context.Context, watchdog string, timeout time.Duration) error {
	if os.Getenv(wire.InitEnv) == "" {
		return nil
	}
	if err := os.Unsetenv(wire.InitEnv); err != nil { // not for other processes of the sandbox
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", watchdog)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the init process of the sandbox: %w", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
