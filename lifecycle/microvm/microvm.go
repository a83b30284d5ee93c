// Package microvm is the driver for Docker's two programs that make microVMs:
// sbx, and its predecessor, the "docker sandbox" plugin of Docker Desktop 4.58
// to 4.79. It calls them with time limits, reads what they list, remembers what
// they cannot, puts ralph into a sandbox and runs it there. What differs is a
// [dialect].
//
// Both programs are closed. What they do is known from their documentation and
// from measurements, and changes between versions; so nothing is taken for
// granted that can be looked at.
package microvm

import (
	"context"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// The drivers' names as users write them.
const (
	Sbx           = "sbx"
	DockerSandbox = "docker-sandbox"
)

// Drivers returns the names of all drivers, the one to be preferred first.
func Drivers() []string { return []string{Sbx, DockerSandbox} }

// dialect is how one of the programs is spoken to.
type dialect struct {
	typed  string   // how a user calls the program
	listed string   // key of the sandboxes in what "ls --json" prints
	start  []string // these two are followed by the sandbox's name
	remove []string
	// separator stands between the sandbox's name and a command to be run in it.
	separator []string
	// beat is how often a session with a terminal has to be opened for a sandbox to
	// stay; 0 where any session keeps it.
	beat time.Duration
	// limits says that sandboxes can be given limits of memory and processors.
	limits bool
	// mends is what a user does when the program hangs or lists nothing.
	mends string
	program
}

// program is what a dialect does in ways of its own.
type program interface {
	// client finds the program. Its error says how to get it.
	client(ctx context.Context) (client, error)
	// usable reports whether sandboxes can be made here.
	usable(ctx context.Context, d *Driver) error
	// create returns the flags of a new sandbox.
	create(ctx context.Context, d *Driver, spec lifecycle.Spec) ([]string, error)
	// explain turns what the program said into words of ours, with what to do. It
	// returns nil for what it does not know.
	explain(c *callError) error
	// restrict keeps a sandbox to a policy, by rules for this sandbox alone. told
	// is what earlier calls have passed to note, in the program's own words.
	restrict(ctx context.Context, d *Driver, name string, policy egress.Policy, told []string, note func(told []string) error) (kept, error)
	// standing returns the rules for a sandbox's network that are not ours, as far
	// as the program tells.
	standing(ctx context.Context, d *Driver, name string, told []string) ([]lifecycle.StandingRule, error)
	// log returns the arguments that print what went to the network.
	log(name string) []string
	// keys tells for which services the program adds a key to requests. present
	// reports whether the user's environment has one of these variables.
	keys(ctx context.Context, d *Driver, services []credential.Service, present func(names []string) bool) (map[string]bool, error)
	// giveKey says how the program is given the key of a service.
	giveKey(services []credential.Service) string
}

// execOptions say how a command is run.
type execOptions struct {
	terminal   bool
	env        []string // names; the values are in the client's environment
	dir        string   // empty for the sandbox's own choice
	detachKeys string   // empty for the program's own
}

// exec are the arguments that run a command in a sandbox: both programs take what
// "docker exec" takes.
func (d *Driver) exec(name string, o execOptions, command ...string) []string {
	args := []string{"exec", "-i"}
	if o.terminal {
		args = append(args, "-t")
		if o.detachKeys != "" {
			args = append(args, "--detach-keys", o.detachKeys)
		}
	}
	if o.dir != "" {
		args = append(args, "-w", o.dir)
	}
	for _, name := range o.env {
		args = append(args, "-e", name)
	}
	return slices.Concat(args, []string{name}, d.separator, command)
}

// How long the program may take. A list takes it half a second and a creation
// half a minute with a big image to fetch (contract, section 8); what takes
// many times that is broken.
const (
	limitList   = 30 * time.Second
	limitExec   = time.Minute // of our own small commands
	limitCreate = 15 * time.Minute
	limitStart  = 3 * time.Minute
	limitStop   = 2 * time.Minute
	// putting our program in; another one may be at it already
	limitBootstrap = 3 * time.Minute
	// images can have some gigabytes
	limitLoad = 15 * time.Minute
)

// Template returns the image that Docker provides for an agent, or false if it
// provides none (contract, section 9.3).
func Template(agent string) (image string, ok bool) {
	tag, ok := map[string]string{
		"claude": "claude-code", "codex": "codex", "copilot": "copilot", "gemini": "gemini", "opencode": "opencode", "shell": "shell",
	}[agent]
	if !ok {
		return "", false
	}
	return "docker/sandbox-templates:" + tag, true
}
