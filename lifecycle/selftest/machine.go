package selftest

import (
	"context"
	"io"
)

// Machine is this machine, as a dispatch deals with it. Errors that [Skip] has
// made say that something is not needed here.
type Machine interface {
	// Engine connects to the engine.
	Engine() (Engine, error)
	// BuildKit returns the version of the engine's BuildKit, "" for one that
	// does not tell.
	BuildKit(ctx context.Context) (string, error)
	// Driver chooses the driver. The error is why it cannot make sandboxes; the
	// driver is told anyway. It may be called more than once.
	Driver(ctx context.Context) (Driver, error)
	// AgentImage makes sure of the image of the user's agent.
	AgentImage(ctx context.Context) (Image, error)
	// Project returns what makes sure of the image that the project in the
	// current folder asks for, and nil where none asks for one.
	Project(ctx context.Context) (func(context.Context) (Image, error), error)
	// Sandbox describes a sandbox for the repository in root. Its first command
	// creates it.
	Sandbox(ctx context.Context, root string, image Image) (Sandbox, error)
	// Version is that of ralph.
	Version() string
}

// Driver is the driver that was chosen.
type Driver struct {
	Name string
	Why  string // in a few words
	// NeedsEngine says that nothing goes without an engine.
	NeedsEngine bool
}

// Image is an image that sandboxes can be made from.
type Image struct {
	Ref  string
	Note string // what is to be known of it, in a few words; may be empty
}

func (i Image) String() string {
	if i.Note == "" {
		return i.Ref
	}
	return i.Ref + " (" + i.Note + ")"
}

// Sandbox is a sandbox of the test's own.
type Sandbox interface {
	// Name is its name.
	Name() string
	// Ralph dispatches a command to it and returns the exit code. The end of ctx
	// ends the command.
	Ralph(ctx context.Context, out io.Writer, args ...string) (int, error)
	// Remove removes it, as far as it was created, and everything recorded of it.
	Remove(ctx context.Context) error
}
