// Package agent contains an adapter for each coding agent that ralph can run: its
// command line for unattended use, its prerequisites, and the decoder of its output.
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

// Mode is the purpose of a session.
type Mode string

// The modes.
const (
	Plan  Mode = "plan"
	Build Mode = "build"
	// Run is an interactive session, or a single prompt.
	Run Mode = "run"
)

// Session configures the runs of a loop.
type Session struct {
	Mode Mode
	// Model is the value of --model; empty means the agent's default.
	Model     string
	Danger    bool   // --danger
	Sandboxed bool   // in a sandbox of docker ralph
	Bypass    bool   // without permission prompts if sandboxed
	Program   string // real path of ralph
	// Prompts are ignored by claude without a sandbox: it has the user's skills.
	Prompts []Prompt
	// Ask is the user's prompt in the mode Run.
	Ask string
	// Note is information from the previous run, e.g. a failed check; usually empty.
	Note string
	// BudgetUSD is the cost limit of this run; 0 means no limit. Only claude enforces it.
	BudgetUSD float64
	// TempDir is removed at the end of the session.
	TempDir string
	// Env is the agent's environment, as KEY=value. Getenv reads it.
	Env    []string
	Getenv func(string) string
}

// Command starts an agent.
type Command struct {
	Path    string
	Args    []string // without the program
	Env     []string // in addition to the environment, as KEY=value
	Stdin   string
	Warning string // for the user; usually empty
}

// Adapter implements an agent. Adapters are stateless.
type Adapter interface {
	// Name returns the agent's name in the configuration.
	Name() string
	// Prompt and Backend (the model's provider) are for the banner. Either may be empty.
	Prompt(Session) string
	Backend(Session) string
	// Model resolves Session.Model.
	Model(Session) string
	// Check returns an error if the agent cannot be run.
	Check(Session) error
	// Prepare prepares one run.
	Prepare(context.Context, Session) (Command, error)
	// Interactive prepares an interactive session.
	Interactive(context.Context, Session) (Command, error)
	// Decoder returns a decoder for the output of one run.
	Decoder() event.Decoder
}

func adapters() []Adapter { return append(headlessAgents(), claude{}, shell{}) }

// Lookup returns the adapter of a built-in agent or of one in the configuration.
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
