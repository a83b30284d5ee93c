package projectimage

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	buildkit "github.com/moby/buildkit/client"

	"github.com/docker-ralph/docker-ralph/hint"
)

// probeTimeout bounds the first response of BuildKit, over ssh too.
const probeTimeout = 30 * time.Second

type dialer = func(ctx context.Context, addr string) (net.Conn, error)

// connect returns a client of the engine's own BuildKit.
//
// POST /grpc exists since Docker 18.09, but is deprecated since API 1.53. Engines since 29.0
// speak gRPC on the API socket, but TLS listeners negotiate HTTP/1.1, so it is tried on
// local sockets only.
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
	return nil, hint.Wrap(&NoBuildKitError{Host: b.Engine.DaemonHost(), Err: err}, "use Docker 20.10 or newer, or an existing image with --image IMAGE")
}

// NoBuildKitError says that an engine has no usable BuildKit.
type NoBuildKitError struct {
	Host string
	Err  error
}

func (e *NoBuildKitError) Error() string {
	return fmt.Sprintf("connecting to BuildKit on %s: %s", e.Host, shorten(oneSpaced(e.Err.Error()), maxReason))
}

func (e *NoBuildKitError) Unwrap() error { return e.Err }

// probe connects with dial and lists the workers: BuildKit before 2022 lacks the Info call.
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
		case reason := <-refused: // without gRPC's wrapping
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
