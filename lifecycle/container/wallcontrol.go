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
	"github.com/docker-ralph/docker-ralph/egress/firewall"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// ErrNoProxy is in the errors for sandboxes whose network is not restricted.
var ErrNoProxy = errors.New("the sandbox has no proxy")

// Control has the running proxy of a sandbox do something at once, and returns
// its answer as JSON: "policy", "stats", "reset", "allow RULE…" or "deny RULE…". Only
// who may start a process beside the proxy can do so: nothing in the sandbox.
func (d *Driver) Control(ctx context.Context, sb lifecycle.Sandbox, order ...string) ([]byte, error) {
	if sb.Proxy == "" {
		return nil, fmt.Errorf("asking the proxy of %s: %w", sb.Name, ErrNoProxy)
	}
	command := append([]string{"/" + guestbin.EgressProgram, "ctl"}, order...)
	out, err := d.run(ctx, lifecycle.Sandbox{ID: proxyName(sb.Name)}, nobody, command...)
	if err != nil {
		return nil, fmt.Errorf("asking the proxy of %s: %w", sb.Name, err)
	}
	return []byte(out), nil
}

// RoutesURL is the URL below which a sandbox finds the routes of its proxy.
func RoutesURL(sb lifecycle.Sandbox) string {
	return "http://" + net.JoinHostPort(sb.Proxy, strconv.Itoa(firewall.PortAPI))
}

// HandOver gives the running proxy of a sandbox its routes and the rules for a
// command's own endpoints, in place of those that it has, and returns the URL below
// which the sandbox finds the routes. The keys in them go to the proxy's memory,
// through the input of a command beside it.
func (d *Driver) HandOver(ctx context.Context, sb lifecycle.Sandbox, routes []egress.Route, endpoints []string) (base string, err error) {
	if sb.Proxy == "" {
		return "", fmt.Errorf("handing keys to the proxy of %s: %w", sb.Name, ErrNoProxy)
	}
	base = RoutesURL(sb)
	line, err := json.Marshal(routes)
	if err != nil {
		return "", fmt.Errorf("handing keys to the proxy of %s: %w", sb.Name, err)
	}
	order := append([]string{"/" + guestbin.EgressProgram, "ctl", "routes"}, endpoints...)
	if _, err := d.runWith(ctx, proxyName(sb.Name), nobody, bytes.NewReader(append(line, '\n')), order...); err != nil {
		return "", fmt.Errorf("handing keys to the proxy of %s: %w", sb.Name, err)
	}
	return base, nil
}

// Decisions writes what the proxy of a sandbox has decided since a time: one
// [egress.Decision] in JSON a line, between other lines. With follow it goes on
// until ctx ends, which is no error.
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
		return fmt.Errorf("the proxy of %s is gone, and its log with it: the next command starts another", sb.Name)
	}
	if err != nil {
		return fmt.Errorf("reading the log of the proxy of %s: %w", sb.Name, err)
	}
	defer func() { _ = res.Close() }()
	if err := demultiplex(w, io.Discard, res); err != nil && ctx.Err() == nil {
		return fmt.Errorf("reading the log of the proxy of %s: %w", sb.Name, err)
	}
	return nil
}
