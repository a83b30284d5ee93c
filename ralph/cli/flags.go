package cli

import (
	"fmt"
	"strconv"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// loopFlags are the flags of plan and build.
type loopFlags struct {
	maxIterations int // 0 means no limit
	model         string
	danger        bool
	json          bool // --format json
	resume        bool
	dryRun        bool
	help          bool

	given runflags.Given
	all   []runflags.Flag
}

// parseLoopFlags parses flags up to the first error or --help.
func parseLoopFlags(mode agent.Mode, args []string) (loopFlags, error) {
	command := runflags.Of(string(mode))
	given, err := command.Parse(args)
	f := loopFlags{
		model: given[runflags.Model], danger: given[runflags.Danger] != "", json: given[runflags.Format] == runflags.JSON,
		resume: given[runflags.Resume] != "", dryRun: given[runflags.DryRun] != "", help: given[runflags.Help] != "", given: given, all: command.Flags,
	}
	n, ok := given[runflags.MaxIterations]
	switch {
	case err != nil:
		return f, err
	case ok:
		f.maxIterations, err = strconv.Atoi(n)
	case mode == agent.Plan:
		f.maxIterations = 1
	}
	return f, err
}

// bound applies the flags to the configuration.
func (f loopFlags) bound(l config.Loop) (config.Loop, error) {
	for _, flag := range f.all {
		value, ok := f.given[flag.Name]
		if !ok || flag.Key == "" {
			continue
		}
		if err := l.Set(flag.Key, value); err != nil {
			return l, fmt.Errorf("--%s %w", flag.Name, err)
		}
	}
	return l, nil
}
