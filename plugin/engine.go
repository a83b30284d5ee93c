package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/cli/cli/command"
	dockercontext "github.com/docker/cli/cli/context"
	"github.com/docker/cli/cli/context/docker"
	"github.com/moby/moby/client"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// selected returns the engine that the Docker CLI would use, and the option or variable that selects
// it; empty for the current context. It does not connect.
func (d dispatcher) selected(cmd *cobra.Command) (e host.Engine, by string) {
	flags := cmd.Root().Flags()
	changed := func(name string) bool { f := flags.Lookup(name); return f != nil && f.Changed }
	switch {
	case changed("context"):
		by = "--context"
	case changed("host"):
		by = "--host"
	case os.Getenv(client.EnvOverrideHost) != "":
		by = client.EnvOverrideHost
	case os.Getenv(command.EnvOverrideContext) != "":
		by = command.EnvOverrideContext
	}
	e.Context = d.cli.CurrentContext()
	ep, err := d.endpoint(e.Context)
	if err != nil {
		return e, by // reported by engine
	}
	e.Host = ep.Host
	if e.Context == command.DefaultContextName && (changed("host") || os.Getenv(client.EnvOverrideHost) != "") {
		e.Context = ""
		if ep.TLSData != nil || ep.SkipTLSVerify {
			e.TLS = tlsFiles(flags, ep.SkipTLSVerify)
		}
	}
	return e, by
}

// tlsFiles returns the files of the Docker CLI's options, whose defaults depend on DOCKER_CERT_PATH.
func tlsFiles(flags *pflag.FlagSet, skipVerify bool) host.EngineTLS {
	file := func(name string) string {
		f := flags.Lookup(name)
		if f == nil {
			return ""
		}
		path, err := filepath.Abs(f.Value.String())
		if _, statErr := os.Stat(path); err != nil || errors.Is(statErr, fs.ErrNotExist) {
			return "" // as the Docker CLI does
		}
		return path
	}
	return host.EngineTLS{CA: file("tlscacert"), Cert: file("tlscert"), Key: file("tlskey"), SkipVerify: skipVerify}
}

// endpoint returns the endpoint of a context.
func (d dispatcher) endpoint(name string) (docker.Endpoint, error) {
	store := d.cli.ContextStore()
	meta, err := store.GetMetadata(name)
	if err != nil {
		return docker.Endpoint{}, fmt.Errorf("using the Docker context %q: %w", name, err)
	}
	ep, err := docker.EndpointFromContext(meta)
	if err != nil {
		return docker.Endpoint{}, fmt.Errorf("using the Docker context %q: %w", name, err)
	}
	return docker.WithTLSData(store, name, ep)
}

// engine connects to the selected engine.
func (d dispatcher) engine() (host.API, error) {
	name := d.cli.CurrentContext()
	ep, err := d.endpoint(name)
	if err != nil && name != command.DefaultContextName { // on an error, Client exits the program
		return nil, err
	}
	if err == nil && !(host.Engine{Host: ep.Host}).Local() {
		ctx, cancel := context.WithTimeout(d.interrupts.Context(), connectTimeout)
		defer cancel()
		return d.connect(ctx, ep)
	}
	return endpointClient{d.cli.Client(), d.cli.DockerEndpoint().Host}, nil
}

// connectTo connects to another engine. A context that was changed or removed since is not used.
func (d dispatcher) connectTo(ctx context.Context, e host.Engine) (host.API, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if e.Context != "" {
		if ep, err := d.endpoint(e.Context); err == nil && e.Same(host.Engine{Host: ep.Host}) {
			return d.connect(ctx, ep)
		}
	}
	tls, err := dockercontext.TLSDataFromFiles(e.TLS.CA, e.TLS.Cert, e.TLS.Key)
	if err != nil {
		return nil, err
	}
	return d.connect(ctx, docker.Endpoint{EndpointMeta: docker.EndpointMeta{Host: e.Host, SkipTLSVerify: e.TLS.SkipVerify}, TLSData: tls})
}

// connectTimeout is the same as that of the Docker CLI's connections by ssh.
const connectTimeout = 30 * time.Second

// connect connects to an endpoint, and negotiates the version of the API.
func (d dispatcher) connect(ctx context.Context, ep docker.Endpoint) (host.API, error) {
	opts, dial, err := clientOptions(ep)
	if err != nil {
		return nil, err
	}
	if headers := d.cli.ConfigFile().HTTPHeaders; len(headers) > 0 {
		opts = append(opts, client.WithHTTPHeaders(headers))
	}
	api, err := client.New(append(opts, client.WithUserAgent("docker-ralph/"+d.version))...)
	if err != nil {
		return nil, err
	}
	connected := func() {}
	if dial != nil {
		connected = dial.begin(ctx)
	}
	if _, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, err
	}
	connected()
	return endpointClient{api, ep.Host}, nil
}

// clientOptions returns the options of a client, and its dialer if the engine is on another machine.
func clientOptions(ep docker.Endpoint) ([]client.Opt, *dialer, error) {
	opts, err := ep.ClientOpts()
	if err != nil || (host.Engine{Host: ep.Host}).Local() {
		return opts, nil, err
	}
	var d *dialer
	var direct *client.Client
	address := ep.Host
	if isSSH(ep.Host) {
		address = sshHost
		d, err = sshDialer(ep.Host)
	} else if direct, err = client.New(opts...); err == nil {
		d = &dialer{dial: direct.Dialer(), spares: spareConnections} // with TLS
	}
	if err != nil {
		return nil, nil, err
	}
	return []client.Opt{
		client.WithHost(address), // it also configures the transport, which the next option replaces
		client.WithHTTPClient(&http.Client{
			Transport:     &http.Transport{DialContext: d.DialContext, MaxIdleConns: 6, IdleConnTimeout: 30 * time.Second},
			CheckRedirect: client.CheckRedirect,
		}),
		client.WithAPIVersionFromEnv(),
	}, d, nil
}

func isSSH(address string) bool { return strings.HasPrefix(address, "ssh://") }

// endpointClient is a client that reports the engine's address as the user knows it:
// with ssh, the client itself has the same placeholder for every engine.
type endpointClient struct {
	client.APIClient
	host string
}

// DaemonHost returns the endpoint of the context.
func (c endpointClient) DaemonHost() string { return cmp.Or(c.host, c.APIClient.DaemonHost()) }
