// Package microvm is the driver for Docker's two programs that create microVMs: sbx, and
// its predecessor, the "docker sandbox" plugin of Docker Desktop 4.58 to 4.79. The
// differences are a [dialect].
//
// Both programs are closed source. Their behavior is known from their documentation and
// from measurements, and changes between versions.
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

// Drivers returns the names of all drivers, the preferred one first.
func Drivers() []string { return []string{Sbx, DockerSandbox} }

// dialect describes one of the programs.
type dialect struct {
	cli     string   // the command, as a user types it
	listKey string   // key of the sandboxes in the output of "ls --json"
	remove  []string // followed by the sandbox's name
	// separator is between the sandbox's name and a command in it.
	separator []string
	// beat is how often a session with a terminal has to be opened to keep a sandbox
	// running; 0 if any session does.
	beat time.Duration
	// pin is followed by the name of a running sandbox that is not to stop without a
	// session until it is stopped; nil if there is no such command.
	pin []string
	// limits is set if memory and processors can be limited.
	limits bool
	// remedy is for a program that hangs or lists nothing.
	remedy string
	program
}

// program is the part of a dialect that is code.
type program interface {
	// client finds the program.
	client(ctx context.Context) (client, error)
	// usable reports whether sandboxes can be created.
	usable(ctx context.Context, d *Driver) error
	// create returns the flags of a new sandbox.
	create(ctx context.Context, d *Driver, spec lifecycle.Spec) ([]string, error)
	// explain returns an error with a hint for a known failure, nil for others.
	explain(c *callError) error
	// restrict enforces a policy by rules for this sandbox alone. applied is what
	// earlier calls have passed to save.
	restrict(ctx context.Context, d *Driver, name string, policy egress.Policy, applied []string, save func(applied []string) error) (deviations, error)
	// otherRules returns the network rules of a sandbox that are not ours.
	otherRules(ctx context.Context, d *Driver, name string, applied []string) ([]lifecycle.ForeignRule, error)
	// log returns the arguments that print the network log.
	log(name string) []string
	// keys returns for which services the program adds a key to requests. present
	// reports whether the user's environment has one of these variables.
	keys(ctx context.Context, d *Driver, services []credential.Service, present func(names []string) bool) (map[string]bool, error)
	// missingKeyHint returns the advice for storing a missing key.
	missingKeyHint(services []credential.Service) string
}

// execOptions are the options of a command.
type execOptions struct {
	terminal   bool
	user       string   // empty for the agent's
	env        []string // names; the values are in the client's environment
	dir        string   // empty for the sandbox's default
	detachKeys string   // empty for the program's default
}

// exec returns the arguments that run a command in a sandbox, which are those of "docker
// exec".
func (d *Driver) exec(name string, o execOptions, command ...string) []string {
	args := []string{"exec", "-i"}
	if o.terminal {
		args = append(args, "-t")
		if o.detachKeys != "" {
			args = append(args, "--detach-keys", o.detachKeys)
		}
	}
	if o.user != "" {
		args = append(args, "-u", o.user)
	}
	if o.dir != "" {
		args = append(args, "-w", o.dir)
	}
	for _, name := range o.env {
		args = append(args, "-e", name)
	}
	return slices.Concat(args, []string{name}, d.separator, command)
}

// Timeouts. A list takes half a second, and a creation half a minute with a big image to
// pull (contract, section 8).
const (
	limitList   = 30 * time.Second
	limitExec   = time.Minute // hidden commands of ralph
	limitCreate = 15 * time.Minute
	limitStart  = 3 * time.Minute
	limitStop   = 2 * time.Minute
	// installing ralph, after another process that does
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
