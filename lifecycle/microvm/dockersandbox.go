package microvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// plugin is "docker sandbox" of Docker Desktop 4.58 to 4.79, a plugin of the Docker CLI.
type plugin struct {
	docker  string
	globals []string
}

// heartbeat is a third of the time after which a microVM without an interactive session is
// stopped (contract, section 4).
const heartbeat = 10 * time.Minute

func pluginDialect(o Options) dialect {
	return dialect{
		cli: "docker sandbox", listKey: "vms",
		remove:  []string{"rm"},
		beat:    cmp.Or(o.Beat, heartbeat),
		remedy:  "restart Docker Desktop",
		program: &plugin{o.Docker, o.Globals},
	}
}

func (p *plugin) client(context.Context) (client, error) {
	if p.docker == "" {
		return client{}, errors.New("docker is not on PATH")
	}
	return client{path: p.docker, args: append(slices.Clone(p.globals), "sandbox"), cli: "docker sandbox"}, nil
}

// usable checks that listing works: the plugin can be present but disabled.
func (p *plugin) usable(ctx context.Context, d *Driver) error {
	_, err := d.entries(ctx)
	return err
}

func (p *plugin) create(_ context.Context, _ *Driver, spec lifecycle.Spec) ([]string, error) {
	return []string{"-t", spec.Image}, nil
}

// errRemoved is for Docker Desktop 4.80 and later, whose plugin only prints a notice.
var errRemoved = hint.Wrap(errors.New("this Docker Desktop has no \"docker sandbox\" (4.80 removed it)"), installHint)

// errNoPlugin is for a Docker CLI without the plugin.
var errNoPlugin = hint.Wrap(fmt.Errorf("%w: no \"docker sandbox\" (it is part of Docker Desktop 4.58 to 4.79)", lifecycle.ErrNotInstalled), installHint)

func (p *plugin) explain(c *callError) error {
	switch {
	case c.mentions("docker sandbox", "sandboxes") && c.mentions("deprecated", "been removed", "no longer"):
		return errRemoved
	case c.mentions("is not a docker command", "unknown command", "docker [options] command"): // the CLI's own usage
		return errNoPlugin
	case c.mentions("sandboxd.sock", "dial unix", "cannot connect to the"):
		return hint.Wrap(fmt.Errorf("docker sandbox cannot connect to its daemon (%s)", c.message()), "start Docker Desktop")
	default:
		return nil
	}
}

// log prints the entries of all sandboxes.
func (p *plugin) log(string) []string { return []string{"network", "log", "--json"} }

// keys assumes that the plugin's proxy has the user's variables: it reads them from
// Docker Desktop's environment, which is not accessible.
func (p *plugin) keys(_ context.Context, _ *Driver, services []credential.Service, present func([]string) bool) (map[string]bool, error) {
	has := map[string]bool{}
	for _, s := range services {
		has[s.Name] = present(s.Variables)
	}
	return has, nil
}

func (p *plugin) missingKeyHint(services []credential.Service) string {
	var variables []string
	for _, s := range services {
		variables = append(variables, s.Variables[0])
	}
	return fmt.Sprintf("%s is not set: the agent has to log in by itself\nHint: set it in your shell's startup file, and restart Docker Desktop, whose proxy adds it to requests",
		strings.Join(variables, ", "))
}
