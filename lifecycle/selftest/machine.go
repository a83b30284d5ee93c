package selftest

import (
	"context"
	"io"
)

// Machine is what the self-test checks. Methods return an error of [Skip] for what
// this machine does not need.
type Machine interface {
	// Engine connects to the engine.
	Engine() (Engine, error)
	// BuildKit returns the version of the engine's BuildKit; empty if unknown.
	BuildKit(ctx context.Context) (string, error)
	// Driver chooses the driver. It returns one that cannot create sandboxes
	// together with the error. It may be called more than once.
	Driver(ctx context.Context) (Driver, error)
	// AgentImage pulls or builds the image of the user's agent.
	AgentImage(ctx context.Context) (Image, error)
	// Project returns a function that builds the project image of the current
	// directory; nil if there is none.
	Project(ctx context.Context) (func(context.Context) (Image, error), error)
	// Sandbox describes a sandbox for the repository in root. Its first command
	// creates it.
	Sandbox(ctx context.Context, root string, image Image) (Sandbox, error)
	// Version returns the version of ralph.
	Version() string
}

// Driver is the chosen driver.
type Driver struct {
	Name string
	Why  string // it was chosen
	// NeedsEngine reports whether it needs a Docker Engine.
	NeedsEngine bool
}

// Image is an image of a sandbox.
type Image struct {
	Ref  string
	Note string // may be empty
}

func (i Image) String() string {
	if i.Note == "" {
		return i.Ref
	}
	return i.Ref + " (" + i.Note + ")"
}

// Sandbox is the sandbox of the self-test.
type Sandbox interface {
	Name() string
	// Ralph runs a command of ralph in it and returns the exit code. Cancelling
	// ctx ends the command.
	Ralph(ctx context.Context, out io.Writer, args ...string) (int, error)
	// CreateTask adds a task with one step to the backlog of its scope.
	CreateTask(ctx context.Context, id, title, step string) error
	// Remove removes it, even if partially created, and its state files.
	Remove(ctx context.Context) error
}
