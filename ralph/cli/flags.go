package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// loopFlags are the flags of plan and build.
type loopFlags struct {
	maxIterations int // 0 means no bound
	model         string
	danger        bool
	help          bool
}

// parseLoopFlags reads the flags from left to right; the first error or call
// for help ends it.
func parseLoopFlags(mode agent.Mode, args []string) (loopFlags, error) {
	var f loopFlags
	if mode == agent.Plan {
		f.maxIterations = 1
	}
	for i := 0; i < len(args); i++ {
		value := func() (string, bool) {
			i++
			if i >= len(args) || args[i] == "" || strings.HasPrefix(args[i], "-") {
				return "", false
			}
			return args[i], true
		}
		switch args[i] {
		case "--max-iterations", "-n":
			v, _ := value()
			n, err := strconv.ParseUint(v, 10, 31)
			if err != nil {
				return f, errors.New("--max-iterations requires a number")
			}
			f.maxIterations = int(n)
		case "--model", "-m":
			v, ok := value()
			if !ok {
				return f, errors.New("--model requires an alias (e.g. opus-4.5, sonnet, haiku)")
			}
			f.model = v
		case "--danger":
			f.danger = true
		case "--help", "-h":
			f.help = true
			return f, nil
		default:
			return f, fmt.Errorf("Unknown option '%s'\nRun 'ralph %s --help' for usage", args[i], mode) //nolint:staticcheck // the wording is an interface
		}
	}
	if mode == agent.Plan && f.maxIterations == 0 {
		return f, errors.New("plan mode requires at least 1 iteration (-n 0 is not allowed)")
	}
	return f, nil
}
