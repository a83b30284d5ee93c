// Package dockersandbox is the driver that makes sandboxes of microVMs with the
// "docker sandbox" plugin of Docker Desktop 4.58 to 4.79.
package dockersandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// Name is the driver's name.
const Name = "docker-sandbox"

// Dialect speaks to the plugin, through the Docker CLI.
type Dialect struct {
	// Docker is the Docker CLI, and Globals its options that choose the
	// configuration and the engine.
	Docker  string
	Globals []string
	// Beat is how often a session has to be opened for a sandbox to stay; 0
	// for what is known of the plugin.
	Beat time.Duration
}

var _ microvm.Dialect = (*Dialect)(nil)

// New returns the driver.
func New(d *Dialect, driver microvm.Driver) *microvm.Driver {
	driver.Dialect = d
	return &driver
}

// Name implements [microvm.Dialect].
func (d *Dialect) Name() string { return Name }

// Client implements [microvm.Dialect].
func (d *Dialect) Client(context.Context) (microvm.Client, error) {
	if d.Docker == "" {
		return microvm.Client{}, errors.New("the docker command is not on PATH, and the driver docker-sandbox needs it")
	}
	return microvm.Client{Path: d.Docker, Args: append(slices.Clone(d.Globals), "sandbox"), Typed: "docker sandbox"}, nil
}

// Root implements [microvm.Dialect].
func (d *Dialect) Root() string { return "vms" }

// Create implements [microvm.Dialect]. The plugin knows no limits of memory and
// processors.
func (d *Dialect) Create(_ context.Context, spec lifecycle.Spec, extra []microvm.Mount) ([]string, error) {
	args := []string{"create", "-t", spec.Image, "--name", spec.Name, "shell", spec.Root}
	for _, m := range extra {
		args = append(args, m.Argument())
	}
	return args, nil
}

// Start implements [microvm.Dialect].
func (d *Dialect) Start(name string) []string { return []string{"run", "--detached", name} }

// Stop implements [microvm.Dialect].
func (d *Dialect) Stop(name string) []string { return []string{"stop", name} }

// Remove implements [microvm.Dialect].
func (d *Dialect) Remove(name string) []string { return []string{"rm", name} }

// Exec implements [microvm.Dialect]. Like that of docker exec, its command
// follows the name at once.
func (d *Dialect) Exec(name string, opts microvm.ExecOptions) []string {
	return opts.Arguments(name)
}

// heartbeat is a third of the half hour after which a microVM without an
// interactive session is stopped (contract, section 4).
const heartbeat = 10 * time.Minute

// Heartbeat implements [microvm.Dialect].
func (d *Dialect) Heartbeat() time.Duration {
	if d.Beat > 0 {
		return d.Beat
	}
	return heartbeat
}

// Manual implements [microvm.Dialect].
func (d *Dialect) Manual(name string) lifecycle.Manual {
	return lifecycle.Manual{List: "docker sandbox ls", Stop: "docker sandbox stop " + name, Remove: "docker sandbox rm " + name}
}

// errRemoved is for Docker Desktop from 4.80 on: the plugin is listed, but
// prints a notice and nothing else.
var errRemoved = errors.New("this Docker Desktop no longer has \"docker sandbox\" (4.80 removed it): install sbx, its successor (https://docs.docker.com/ai/sandboxes/), or use \"--driver container\"")

// errMissing is for a Docker without the plugin.
var errMissing = fmt.Errorf("%w: there is no \"docker sandbox\" here: it came with Docker Desktop 4.58 to 4.79. Install sbx, its successor (https://docs.docker.com/ai/sandboxes/), or use \"--driver container\"", lifecycle.ErrNotInstalled)

// Explain implements [microvm.Dialect].
func (d *Dialect) Explain(c *microvm.CallError) error {
	switch {
	case c.Limit > 0:
		return fmt.Errorf("%w. Restart Docker Desktop, then try again", c)
	case c.Says("docker sandbox", "sandboxes") && c.Says("deprecated", "been removed", "no longer"):
		return errRemoved
	case c.Says("is not a docker command", "unknown command", "docker [options] command"): // the CLI's own usage
		return errMissing
	case c.Says("sandboxd.sock", "dial unix", "cannot connect to the"):
		return fmt.Errorf("docker sandbox does not reach its daemon (%s): start Docker Desktop", c.Words())
	default:
		return nil
	}
}

// Missing implements [microvm.Dialect]. The program's own name has "sandbox" in it,
// and much else can be what is not found.
func (d *Dialect) Missing(c *microvm.CallError) bool {
	return c.Says("no sandbox named", "no such sandbox") || c.Says("sandbox '", `sandbox "`) && c.Says("' not found", `" not found`)
}

// Taken implements [microvm.Dialect].
func (d *Dialect) Taken(c *microvm.CallError) bool { return c.SaysTaken() }

// Diagnose implements [microvm.Dialect].
func (d *Dialect) Diagnose(ctx context.Context, name string) string {
	const listed = "docker sandbox lists no sandboxes at all, though this one was made"
	client, err := d.Client(ctx)
	if err != nil {
		return listed + "; " + err.Error()
	}
	_, err = client.Output(ctx, 30*time.Second, append(d.Exec(name, microvm.ExecOptions{}), "true")...)
	c, said := errors.AsType[*microvm.CallError](err)
	switch {
	case err == nil:
		return listed + "; but it runs commands in it. Restarting Docker Desktop may mend the list"
	case said && d.Missing(c):
		return listed + "; asked for it by name, it says that there is none"
	default:
		return listed + "; " + err.Error()
	}
}

// Usable tells whether the plugin works here: listing is what it must be able
// to do, its presence says nothing.
func (d *Dialect) Usable(ctx context.Context) error {
	client, err := d.Client(ctx)
	if err != nil {
		return err
	}
	out, err := d.ask(ctx, client, "ls", "--json")
	if err != nil {
		return err
	}
	if _, err := microvm.ParseListing(out, d.Root()); err != nil {
		if known := d.Explain(&microvm.CallError{Stdout: string(out)}); known != nil {
			return known
		}
		return fmt.Errorf("the answer of \"docker sandbox ls --json\" cannot be read: %w", err)
	}
	return nil
}

// ask runs a command that asks nobody anything, and explains what goes wrong.
func (d *Dialect) ask(ctx context.Context, client microvm.Client, args ...string) ([]byte, error) {
	out, err := client.Output(ctx, 15*time.Second, args...)
	if c, ok := errors.AsType[*microvm.CallError](err); ok {
		if known := d.Explain(c); known != nil {
			return nil, known
		}
	}
	return out, err
}
