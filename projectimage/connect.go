package projectimage

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	buildkit "github.com/moby/buildkit/client"
)

// probeTimeout bounds the first answer of BuildKit: something behind the socket
// may take the connection and never speak. It leaves room for ssh to connect.
const probeTimeout = 30 * time.Second

type dialer = func(ctx context.Context, addr string) (net.Conn, error)

// connect returns a client of the engine's own BuildKit.
//
// POST /grpc is there since Docker 18.09 but deprecated since API 1.53; engines
// since 29.0 speak gRPC on the API socket itself. The second way is tried on
// local sockets only, as TLS listeners settle on HTTP/1.1.
func (b *Builder) connect(ctx context.Context) (*buildkit.Client, error) {
	c, err := probe(ctx, func(ctx context.Context, _ string) (net.Conn, error) {
		return b.Engine.DialHijack(ctx, "/grpc", "h2c", nil)
	})
	if err == nil {
		return c, nil
	}
	if ctx.Err() == nil && localSocket(b.Engine.DaemonHost()) {
		dial := b.Engine.Dialer()
		c, nativeErr := probe(ctx, func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) })
		if nativeErr == nil {
			return c, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &NoBuildKitError{Host: b.Engine.DaemonHost(), Err: err}
}

// NoBuildKitError says that an engine answers but cannot build.
type NoBuildKitError struct {
	Host string
	Err  error
}

func (e *NoBuildKitError) Error() string {
	return fmt.Sprintf("the engine at %s has no BuildKit that answers (%s), so no image can be built on it: "+
		"use Docker 20.10 or newer, or give a ready image with --image IMAGE", e.Host, shorten(oneSpaced(e.Err.Error()), reasonMax))
}

func (e *NoBuildKitError) Unwrap() error { return e.Err }

// probe connects through dial and asks for the workers: BuildKits of before
// 2022 do not know the Info call that is made for this.
func probe(ctx context.Context, dial dialer) (*buildkit.Client, error) {
	refused := make(chan error, 1)
	c, err := buildkit.New(ctx, "", buildkit.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := dial(ctx, addr)
		if err != nil {
			select {
			case refused <- err:
			default:
			}
		}
		return conn, err
	}))
	if err != nil {
		return nil, err
	}
	probeCtx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := c.ListWorkers(probeCtx); err != nil {
		_ = c.Close()
		select {
		case reason := <-refused: // the reason, without what gRPC wraps around it
			return nil, reason
		default:
			return nil, err
		}
	}
	return c, nil
}

// localSocket reports whether host is a unix socket or a named pipe.
func localSocket(host string) bool {
	return strings.HasPrefix(host, "unix://") || strings.HasPrefix(host, "npipe://")
}
