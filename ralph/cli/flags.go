package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// loopFlags are the flags of plan and build.
type loopFlags struct {
	maxIterations int // 0 means no limit
	model         string
	danger        bool
	json          bool // --format json
	resume        bool
	bounds        []boundFlag
	help          bool
}

// boundFlag is a flag for a key of [loop].
type boundFlag struct{ flag, key, value string }

// boundKeys maps the flags of bounds to keys of [loop].
func boundKeys() map[string]string {
	return map[string]string{
		"--max-duration": "max_duration", "--max-cost-usd": "max_cost_usd", "--max-tokens": "max_tokens",
		"--max-failures": "max_failures", "--max-wait": "max_wait", "--stall": "stall", "--idle": "idle",
	}
}

// parseLoopFlags parses flags up to the first error or --help.
func parseLoopFlags(mode agent.Mode, args []string) (loopFlags, error) {
	var f loopFlags
	if mode == agent.Plan {
		f.maxIterations = 1
	}
	for len(args) > 0 && !f.help {
		var err error
		if args, err = f.next(mode, args); err != nil {
			return f, err
		}
	}
	if !f.help && mode == agent.Plan && f.maxIterations == 0 {
		return f, errors.New("plan mode requires at least 1 iteration (-n 0 is not allowed)")
	}
	return f, nil
}

// next parses one flag and returns the remaining arguments.
func (f *loopFlags) next(mode agent.Mode, args []string) (rest []string, err error) {
	flag, rest := args[0], args[1:]
	value := ""
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		value = rest[0]
	}
	key, isBound := boundKeys()[flag]
	switch {
	case flag == "--max-iterations" || flag == "-n":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return nil, errors.New("--max-iterations requires a number")
		}
		f.maxIterations = int(n)
	case flag == "--model" || flag == "-m":
		if value == "" {
			return nil, errors.New("--model requires an alias (e.g. opus-4.5, sonnet, haiku)")
		}
		f.model = value
	case flag == "--format":
		if value != "text" && value != "json" {
			return nil, errors.New("--format requires text or json")
		}
		f.json = value == "json"
	case isBound:
		if value == "" {
			return nil, fmt.Errorf("%s requires a value", flag)
		}
		if err := new(config.Loop).Set(key, value); err != nil {
			return nil, fmt.Errorf("%s %q: %w", flag, value, err)
		}
		f.bounds = append(f.bounds, boundFlag{flag, key, value})
	case flag == "--danger":
		f.danger = true
		return rest, nil
	case flag == "--resume":
		f.resume = true
		return rest, nil
	case flag == "--help" || flag == "-h":
		f.help = true
		return rest, nil
	default:
		return nil, fmt.Errorf("Unknown option '%s'\nRun 'ralph %s --help' for usage", flag, mode) //nolint:staticcheck // the wording is an interface
	}
	return rest[1:], nil
}

// bound applies the flags to the configuration.
func (f loopFlags) bound(l config.Loop) (config.Loop, error) {
	for _, b := range f.bounds {
		if err := l.Set(b.key, b.value); err != nil {
			return l, fmt.Errorf("%s %q: %w", b.flag, b.value, err)
		}
	}
	return l, nil
}
