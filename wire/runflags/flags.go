package runflags

import (
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/help"
)

// Flag is a flag of a command.
type Flag struct {
	Long, Short string // with dashes; Short can be empty
	Value       string // placeholder of its value; empty without one
	Usage       string
}

var (
	flagLine = lazyregexp.New(`^  (?:(-\w), |    )(--[a-z-]+)(?: ([A-Z]+))?  +(.*)$`)
	moreLine = lazyregexp.New(`^ {20,}(\S.*)$`)
)

// Of returns the flags of "plan", "build", "run" or "shell" as their help lists them.
func Of(command string) []Flag {
	var flags []Flag
	inFlag := false
	for line := range strings.Lines(help.Text(command)) {
		line = strings.TrimSuffix(line, "\n")
		if m := flagLine().FindStringSubmatch(line); m != nil {
			flags, inFlag = append(flags, Flag{Short: m[1], Long: m[2], Value: m[3], Usage: m[4]}), true
			continue
		}
		m := moreLine().FindStringSubmatch(line)
		if inFlag = inFlag && m != nil; inFlag {
			flags[len(flags)-1].Usage += " " + m[1]
		}
	}
	return flags
}
