// Package guest holds the hidden commands of ralph that the host side of
// docker-ralph calls inside a container sandbox. They are in the program
// itself, because an image need not contain anything but git and the agent,
// and because a static program of ours does not load libraries that the agent
// could have replaced.
package guest

import (
	"errors"
	"fmt"
	"io"
)

// Commands lists the hidden commands by their names, as ralph dispatches
// them. Each takes the arguments after its name and returns an exit code;
// errors are written to stderr.
func Commands(stderr io.Writer) map[string]func(args []string) int {
	wrap := func(run func([]string) error) func([]string) int {
		return func(args []string) int {
			if err := run(args); err != nil {
				_, _ = fmt.Fprintln(stderr, "Error:", err)
				return 1
			}
			return 0
		}
	}
	return map[string]func([]string) int{
		"_init":    wrap(runInit),
		"_install": wrap(runInstall),
		"_own":     wrap(runOwn),
		"_signal":  wrap(runSignal),
	}
}

var errUsage = errors.New("this command is for docker-ralph's own use")
