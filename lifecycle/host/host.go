// Package host is the machine of the user, as commands see it: engine, directories, streams and
// prompts, its sandboxes, and the run records of commands in them.
package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/projectimage"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// API is the part of the Engine API that commands use.
type API interface {
	engine.API
	projectimage.Engine
	microvm.Engine
}

// Host is the user's engine, directories, streams and prompts.
type Host struct {
	// Engine connects to the engine. Commands call it once, in the background of checks
	// that need no engine and whose errors come first.
	Engine func() (API, error)
	// Selected is the engine that Engine connects to, and SelectedBy the option or variable
	// that has selected it explicitly; empty for that of the current context.
	Selected   Engine
	SelectedBy string
	// ConnectTo connects to another engine, and checks that it responds.
	ConnectTo func(context.Context, Engine) (API, error)
	// Docker is the Docker CLI that has called us, and DockerGlobals its
	// options that choose configuration and engine.
	Docker        string
	DockerGlobals []string
	// HasPlugin reports whether Docker finds a plugin of that name; nil if only Docker
	// itself can, which is slow.
	HasPlugin func(name string) bool
	// Attacher is the command that attaches to the loop of a sandbox.
	Attacher []string
	// Notifier is the command that delivers the notifications in a file.
	Notifier []string
	// Dir is the current directory.
	Dir string
	// Home is the user's home directory; empty for none.
	Home string
	// StateDir is the plugin's directory in Docker's configuration directory.
	StateDir string
	// LookupEnv is os.LookupEnv, or a fake.
	LookupEnv func(string) (string, bool)
	// Version is the plugin's.
	Version string

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal is nil unless input and output are a terminal.
	Terminal lifecycle.Terminal
	// Confirm asks the user; nil without a terminal.
	Confirm func(ctx context.Context, question string) (bool, error)
	// Ask prompts the user for a line; nil without a terminal.
	Ask func(ctx context.Context, question string) (string, error)
	// Forward delivers signals, which otherwise cancel the context, until stop is called.
	Forward func(ctx context.Context) (signals <-chan os.Signal, stop func())
	// Background is how a loop continues without a terminal; nil if it cannot.
	Background *Background

	// Credentials are those for registries.
	Credentials projectimage.Credentials
	// Progress shows builds and pulls.
	Progress projectimage.Progress
	// ProxyArgs returns the proxy variables for builds on an engine.
	ProxyArgs func(engine string) map[string]*string

	// Debug prints details for debugging; nil prints none.
	Debug func(message string)
}

// Connect connects to the engine while git and the configuration are read, and
// returns a function that waits for it.
func (h Host) Connect() func() (API, error) {
	type connection struct {
		api API
		err error
	}
	done := make(chan connection, 1)
	go func() {
		api, err := h.Engine()
		done <- connection{api, err}
	}()
	return sync.OnceValues(func() (API, error) {
		c := <-done
		return c.api, c.err
	})
}

// LockDir is the directory with all lock files.
func (h Host) LockDir() string { return filepath.Join(h.StateDir, "locks") }

// Report prints a message to the user. Names in it can come from a repository or an
// agent.
func (h Host) Report(message string) {
	_, _ = fmt.Fprintln(termsafe.NewWriter(h.Stderr), message)
}

// ReportDebug prints details for debugging.
func (h Host) ReportDebug(message string) {
	if h.Debug != nil {
		h.Debug(message)
	}
}

// Warn reports an error that does not stop the command, with its hints.
func (h Host) Warn(err error) {
	err = lifecycle.ExplainUnreachable(err)
	h.Report(fmt.Sprintf("Warning: %v", err))
	for _, text := range hint.Of(err) {
		h.Report("Hint: " + text)
	}
}

// Getenv returns an environment variable, empty if it is not set.
func (h Host) Getenv(name string) string {
	if h.LookupEnv == nil {
		return ""
	}
	value, _ := h.LookupEnv(name)
	return value
}
