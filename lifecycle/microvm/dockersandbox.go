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

// plugin is the "docker sandbox" plugin of Docker Desktop 4.58 to 4.79, which is
// called through the Docker CLI.
type plugin struct {
	docker  string
	globals []string
}

// heartbeat is a third of the half hour after which a microVM without an
// interactive session is stopped (contract, section 4).
const heartbeat = 10 * time.Minute

// pluginDialect has no limits of memory and processors, as the plugin knows none.
func pluginDialect(o Options) dialect {
	return dialect{
		typed: "docker sandbox", listed: "vms",
		start: []string{"run", "--detached"}, remove: []string{"rm"},
		beat:    cmp.Or(o.Beat, heartbeat),
		mends:   "restart Docker Desktop",
		program: &plugin{o.Docker, o.Globals},
	}
}

func (p *plugin) client(context.Context) (client, error) {
	if p.docker == "" {
		return client{}, errors.New("the docker command is not on PATH, which the driver docker-sandbox needs")
	}
	return client{path: p.docker, args: append(slices.Clone(p.globals), "sandbox"), typed: "docker sandbox"}, nil
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
var errRemoved = hint.Wrap(errors.New("this Docker Desktop no longer has \"docker sandbox\" (4.80 removed it)"), installHint)

// errNoPlugin is for a Docker CLI without the plugin.
var errNoPlugin = hint.Wrap(fmt.Errorf("%w: there is no \"docker sandbox\" here (Docker Desktop 4.58 to 4.79 have it)", lifecycle.ErrNotInstalled), installHint)

func (p *plugin) explain(c *callError) error {
	switch {
	case c.says("docker sandbox", "sandboxes") && c.says("deprecated", "been removed", "no longer"):
		return errRemoved
	case c.says("is not a docker command", "unknown command", "docker [options] command"): // the CLI's own usage
		return errNoPlugin
	case c.says("sandboxd.sock", "dial unix", "cannot connect to the"):
		return hint.Wrap(fmt.Errorf("docker sandbox cannot connect to its daemon (%s)", c.words()), "start Docker Desktop")
	default:
		return nil
	}
}

// log is for all sandboxes.
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

func (p *plugin) giveKey(services []credential.Service) string {
	var variables []string
	for _, s := range services {
		variables = append(variables, s.Variables[0])
	}
	return fmt.Sprintf("%s is not set: the agent can reach its model only if it logs in by itself. Set it in your shell's start-up file, then restart Docker Desktop, whose proxy adds it to requests",
		strings.Join(variables, ", "))
}
