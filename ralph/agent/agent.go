// Package agent knows the coding agents that ralph can run: the command line
// that starts each of them unattended, what has to be in place before, and
// how to read what it reports. One adapter per agent.
package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// Mode is what an agent is run for.
type Mode string

// The modes.
const (
	Plan  Mode = "plan"
	Build Mode = "build"
	// Run is a session of the user's own: at the terminal, or for one prompt.
	Run Mode = "run"
)

// Session is what stays the same over all runs of a loop.
type Session struct {
	Mode Mode
	// Model is the --model as given; empty means the agent's own default.
	Model string
	// Danger says that the user allowed the agent everything, with --danger.
	Danger bool
	// Sandboxed says that a sandbox of ours is the boundary.
	Sandboxed bool
	// Bypass says that a sandboxed agent runs without permission prompts.
	Bypass bool
	// Program is the real path of ralph itself.
	Program string
	// Prompts are what the agent is told. On a host, claude has the user's
	// own skills instead.
	Prompts []Prompt
	// Ask is the prompt of a session with the mode Run, as the user wrote it.
	Ask string
	// Note is what this run has to know of the one before, e.g. why its task
	// was given back; usually empty.
	Note string
	// BudgetUSD is what this run may cost, in US dollars; 0 means no bound.
	// Only agents that keep such a bound themselves use it.
	BudgetUSD float64
	// TempDir is a private folder that goes when the loop ends.
	TempDir string
	// Env is the environment that the agent will have, as KEY=value, and
	// Getenv reads it.
	Env    []string
	Getenv func(string) string
}

// Command starts an agent.
type Command struct {
	Path string
	Args []string // without the program
	Env  []string // in addition to the environment, as KEY=value
	// Stdin is what the agent reads; when empty it reads nothing.
	Stdin string
	// Warning is something that the user should know and that does not keep
	// the agent from its work; usually empty.
	Warning string
}

// Adapter is one agent. Adapters have no state.
type Adapter interface {
	// Name is what the agent is called in the configuration.
	Name() string
	// Prompt and Backend are for the banner: what the agent is told, and who
	// serves its model. Either may be empty.
	Prompt(Session) string
	Backend(Session) string
	// Model returns the model that Session.Model stands for.
	Model(Session) string
	// Check says whether the agent can be run at all, in an error that tells
	// what to do about it.
	Check(Session) error
	// Prepare puts everything in place for one run.
	Prepare(context.Context, Session) (Command, error)
	// Interactive puts everything in place for the agent's own interface, at the
	// user's terminal.
	Interactive(context.Context, Session) (Command, error)
	// Decoder returns a decoder for the output of one run.
	Decoder() event.Decoder
}

func adapters() []Adapter { return append(headlessAgents(), claude{}, shell{}) }

// Lookup returns the adapter of the agent called name, which is built in or
// one of those that the configuration defines.
func Lookup(name string, defined map[string]config.CustomAgent) (Adapter, error) {
	known := slices.Collect(maps.Keys(defined))
	for _, a := range adapters() {
		if a.Name() == name {
			return a, nil
		}
		known = append(known, a.Name())
	}
	if c, found := defined[name]; found {
		return custom{name, c}, nil
	}
	slices.Sort(known)
	return nil, hint.Wrap(fmt.Errorf("unknown agent %q", name), "known agents: %s", strings.Join(known, ", "))
}
