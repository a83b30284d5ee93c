package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
	"github.com/docker-ralph/docker-ralph/wire"
)

// ErrNoProxy is returned for sandboxes without a restricted network.
var ErrNoProxy = errors.New("the sandbox has no proxy")

// Control sends a request to the running proxy of a sandbox and returns its answer as
// JSON: "policy", "stats", "reset", "allow RULE…" or "deny RULE…". It runs in the
// proxy's container, so that nothing in the sandbox can do the same.
func (d *Driver) Control(ctx context.Context, sb lifecycle.Sandbox, order ...string) ([]byte, error) {
	if sb.Proxy == "" {
		return nil, fmt.Errorf("controlling the proxy of %s: %w", sb.Name, ErrNoProxy)
	}
	command := append([]string{"/" + guestbin.EgressProgram, "ctl"}, order...)
	out, err := engine.Exec(ctx, d.API, proxyName(sb.Name), initUser, nil, command...)
	if err != nil {
		return nil, fmt.Errorf("controlling the proxy of %s: %w", sb.Name, err)
	}
	return []byte(out), nil
}

// RoutesURL returns the base URL of the proxy's routes.
func RoutesURL(sb lifecycle.Sandbox) string {
	return "http://" + net.JoinHostPort(sb.Proxy, strconv.Itoa(wire.PortRoutes))
}

// SendRoutes replaces the routes of a running proxy and the rules for a command's
// endpoints, and returns the base URL of the routes. Keys are passed through stdin and
// stay in the proxy's memory.
func (d *Driver) SendRoutes(ctx context.Context, sb lifecycle.Sandbox, routes []egress.Route, endpoints []string) (base string, err error) {
	if sb.Proxy == "" {
		return "", fmt.Errorf("passing keys to the proxy of %s: %w", sb.Name, ErrNoProxy)
	}
	base = RoutesURL(sb)
	line, err := json.Marshal(routes)
	if err != nil {
		return "", fmt.Errorf("passing keys to the proxy of %s: %w", sb.Name, err)
	}
	order := append([]string{"/" + guestbin.EgressProgram, "ctl", "routes"}, endpoints...)
	if _, err := engine.Exec(ctx, d.API, proxyName(sb.Name), initUser, bytes.NewReader(append(line, '\n')), order...); err != nil {
		return "", fmt.Errorf("passing keys to the proxy of %s: %w", sb.Name, err)
	}
	return base, nil
}

// Decisions writes the log of a proxy since a time: one [egress.Decision] in JSON per
// line, between other lines. With follow, it continues until ctx is canceled, which is
// not an error.
func (d *Driver) Decisions(ctx context.Context, sb lifecycle.Sandbox, since time.Time, follow bool, w io.Writer) error {
	if sb.Proxy == "" {
		return fmt.Errorf("reading the log of the proxy of %s: %w", sb.Name, ErrNoProxy)
	}
	opts := client.ContainerLogsOptions{ShowStdout: true, Follow: follow}
	if !since.IsZero() {
		opts.Since = since.UTC().Format(time.RFC3339Nano)
	}
	res, err := d.API.ContainerLogs(ctx, proxyName(sb.Name), opts)
	if errdefs.IsNotFound(err) {
		return hint.Wrap(fmt.Errorf("sandbox %s has no network log: it has no proxy", sb.Name), "the next command that uses the network starts one")
	}
	if err != nil {
		return fmt.Errorf("reading the log of the proxy of %s: %w", sb.Name, err)
	}
	defer func() { _ = res.Close() }()
	if err := engine.Demultiplex(w, io.Discard, res); err != nil && ctx.Err() == nil {
		return fmt.Errorf("reading the log of the proxy of %s: %w", sb.Name, err)
	}
	return nil
}
