package runflags

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
)

// Names of flags.
const (
	MaxIterations = "max-iterations"
	Model         = "model"
	Prompt        = "prompt"
	Danger        = "danger"
	Resume        = "resume"
	DryRun        = "dry-run"
	Format        = "format"
	Help          = "help"
)

// JSON is a value of [Format].
const JSON = "json"

// Flag is a flag of a command.
type Flag struct {
	Name, Short string // without dashes; Short can be empty
	Arg         string // placeholder of its value; empty for a switch
	Usage       string
	Default     string // as help shows it
	Key         string // key of [loop] that it sets
	Values      []string
	requires    string // kind of value; "a value" if empty
}

// Check returns an error that says what a value must be.
func (f Flag) Check(value string) error {
	_, notNumber := strconv.ParseUint(value, 10, 31)
	switch {
	case value == "", f.Name != Prompt && strings.HasPrefix(value, "-") && (f.Key == "" || !isNegative(value)),
		f.Name == MaxIterations && notNumber != nil,
		f.Values != nil && !slices.Contains(f.Values, value):
		if f.requires == "" {
			return errors.New("requires a value")
		}
		return errors.New("requires " + f.requires)
	case f.Key != "":
		return new(config.Loop).Set(f.Key, value)
	}
	return nil
}

// isNegative reports whether a value that begins with a dash is a number rather than a flag.
func isNegative(value string) bool { return len(value) > 1 && value[1] >= '0' && value[1] <= '9' }

// Given are the values of the flags on a command line by their names; "true" for switches.
type Given map[string]string

// Check checks flags that exclude each other. Each has been checked already.
func (c Command) Check(given Given) error {
	if n, err := strconv.Atoi(given[MaxIterations]); c.Name == Plan && err == nil && n == 0 {
		return errors.New("plan mode requires at least 1 iteration (-n 0 is not allowed)")
	}
	return nil
}

// Parse parses a command line up to --help or the first error, as ralph does. The last of
// repeated flags wins. The loops have no --flag=value.
func (c Command) Parse(args []string) (Given, error) {
	given := Given{}
	for len(args) > 0 {
		name, value, joined := args[0], "", false
		if c.Name == Run {
			name, value, joined = strings.Cut(name, "=")
		}
		i := slices.IndexFunc(c.Flags, func(f Flag) bool { return name == "--"+f.Name || f.Short != "" && name == "-"+f.Short })
		if i < 0 || joined && c.Flags[i].Arg == "" {
			return given, fmt.Errorf("Unknown option '%s'\nRun 'ralph %s --help' for usage", args[0], c.Name) //nolint:staticcheck // the wording is an interface
		}
		f := c.Flags[i]
		args = args[1:]
		if f.Arg == "" {
			given[f.Name] = "true"
			if f.Name == Help {
				return given, nil
			}
			continue
		}
		if !joined && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if err := f.Check(value); err != nil {
			return given, fmt.Errorf("--%s %w", f.Name, err)
		}
		given[f.Name] = value
	}
	return given, c.Check(given)
}
