// Package runflags parses the command line of "ralph run", for the plugin on the host
// and ralph in the sandbox.
package runflags

import (
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Flags are the flags of "ralph run".
type Flags struct {
	// Model is an alias or a model id; empty for the configured one.
	Model string
	// Prompt is the prompt of a single run; Once reports whether it is set.
	Prompt string
	Once   bool
	// Danger skips the permission checks of the agent.
	Danger bool
	Help   bool
}

// Parse parses the arguments after "run", up to a help flag.
func Parse(args []string) (Flags, error) {
	var f Flags
	for len(args) > 0 && !f.Help {
		flag, value, joined := strings.Cut(args[0], "=")
		args = args[1:]
		takeValue := func() (string, error) {
			if !joined {
				if len(args) == 0 {
					return "", fmt.Errorf("%s requires a value", flag)
				}
				value, args = args[0], args[1:]
			}
			if value == "" {
				return "", fmt.Errorf("%s requires a value that is not empty", flag)
			}
			return value, nil
		}
		var err error
		switch {
		case flag == "--model" || flag == "-m":
			f.Model, err = takeValue()
		case flag == "--prompt" || flag == "-p":
			f.Prompt, err = takeValue()
			f.Once = true
		case flag == "--danger" && !joined:
			f.Danger = true
		case (flag == "--help" || flag == "-h") && !joined:
			f.Help = true
		case !strings.HasPrefix(flag, "-"):
			err = hint.Wrap(fmt.Errorf("unexpected argument '%s'", flag), "pass a prompt with -p")
		default:
			err = hint.Wrap(fmt.Errorf("unknown option '%s'", flag), "list the options with --help")
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}
