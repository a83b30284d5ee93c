// Package microvm is what the drivers of Docker's two microVM programs, sbx and
// the docker sandbox plugin, have in common: calling them with time limits,
// reading what they list, remembering what they cannot, putting ralph into a
// sandbox and running it there. What differs is a [Dialect].
//
// Both programs are closed. What they do is known from their documentation and
// from measurements, and changes between versions; so nothing is taken for
// granted that can be looked at.
package microvm

import (
	"context"
	"time"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Dialect is how one of the programs is spoken to.
type Dialect interface {
	// Name is the driver's name as users write it.
	Name() string
	// Client finds the program. Its error says how to get it.
	Client(ctx context.Context) (Client, error)
	// Root is the key of the list of sandboxes in what "ls --json" prints.
	Root() string
	// Create returns the arguments that make a sandbox of spec, with these
	// folders mounted beside the work tree.
	Create(ctx context.Context, spec lifecycle.Spec, extra []Mount) ([]string, error)
	// Start, Stop and Remove return the arguments that do so.
	Start(name string) []string
	Stop(name string) []string
	Remove(name string) []string
	// Exec returns the arguments before the command that is to be run.
	Exec(name string, opts ExecOptions) []string
	// Explain turns what the program said into words of ours, with what to do.
	// It returns nil for what it does not know.
	Explain(call *CallError) error
	// Missing tells whether the program says with it that there is no sandbox
	// of that name.
	Missing(call *CallError) bool
	// Taken tells whether the program says with it that the name is in use.
	Taken(call *CallError) bool
	// Diagnose says, in a clause, why the program may list nothing, and what to
	// do.
	Diagnose(ctx context.Context, name string) string
	// Heartbeat is how often a session with a terminal has to be opened for a
	// sandbox to stay; 0 where any session keeps it.
	Heartbeat() time.Duration
	// Manual is what [lifecycle.Driver] promises.
	Manual(name string) lifecycle.Manual
	// Restrict keeps a sandbox to a policy, by rules for this sandbox alone. told
	// is what earlier calls have passed to note, in the dialect's own words.
	Restrict(ctx context.Context, name string, policy egress.Policy, told []string, note func(told []string) error) (Kept, error)
	// Standing returns the rules for a sandbox's network that are not ours, as
	// far as the program tells.
	Standing(ctx context.Context, name string, told []string) ([]StandingRule, error)
	// Log returns the arguments that print what went to the network.
	Log(name string) []string
}

// Mount is a folder of the host that a sandbox sees at the same path.
type Mount struct {
	Path     string
	ReadOnly bool
}

// Argument is how both programs take a mount.
func (m Mount) Argument() string {
	if m.ReadOnly {
		return m.Path + ":ro"
	}
	return m.Path
}

// ExecOptions say how a command is run.
type ExecOptions struct {
	Terminal   bool
	Env        []string // names; the values are in the client's environment
	Dir        string   // empty for the sandbox's own choice
	DetachKeys string   // empty for the program's own
}

// Arguments are the beginning of an exec command, up to the sandbox's name: both
// programs take what "docker exec" takes.
func (o ExecOptions) Arguments(name string) []string {
	args := []string{"exec", "-i"}
	if o.Terminal {
		args = append(args, "-t")
		if o.DetachKeys != "" {
			args = append(args, "--detach-keys", o.DetachKeys)
		}
	}
	if o.Dir != "" {
		args = append(args, "-w", o.Dir)
	}
	for _, name := range o.Env {
		args = append(args, "-e", name)
	}
	return append(args, name)
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
)
