package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/runflags"
)

// hoist separates the options for the sandbox from the arguments of a command that has only
// flags. Flags of the command, and their values, are its own; unknown is the first argument
// that is neither.
func (o *options) hoist(command string, args []string) (ours, rest []string, unknown string) {
	flags := runflags.Of(command)
	for len(args) > 0 {
		arg, n := args[0], 1
		name, value, joined := strings.Cut(arg, "=")
		i := slices.IndexFunc(flags, func(f runflags.Flag) bool { return name == f.Long || name == f.Short })
		long, dashes := strings.CutPrefix(name, "--")
		option := o.flags.Lookup(long)
		to := &rest
		switch {
		case name == "--help" || name == "-h":
			return ours, append(rest, args...), unknown
		case i >= 0 && joined && flags[i].Value != "": // ralph wants two arguments
			args = append([]string{name, value}, args[1:]...)
			n = 2
		case i >= 0:
			joined = joined || flags[i].Value == ""
		case dashes && option != nil:
			to, joined = &ours, joined || option.NoOptDefVal != ""
		default:
			joined = true
			if unknown == "" {
				unknown = arg
			}
		}
		if !joined {
			n = min(2, len(args))
		}
		*to = append(*to, args[:n]...)
		args = args[n:]
	}
	return ours, rest, unknown
}

// unknownOption returns the error for an unknown argument of plan or build, which have flags
// only.
func unknownOption(command, arg string) error {
	var known []string
	for _, f := range runflags.Of(command) {
		known = append(known, f.Long)
	}
	err := fmt.Errorf("unknown option '%s'", arg)
	if near := hint.Nearest(arg, known); near != "" {
		return hint.Wrap(err, "did you mean %q?", near)
	}
	return hint.Wrap(err, "list the options with %q", "docker ralph "+command+" --help")
}
