package plugin

import (
	"errors"
	"os"
	"slices"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/help"
)

// forwarded is the command line of a command that ralph runs in the sandbox.
type forwarded struct {
	runflags.Command
	given runflags.Given
	args  []string // as typed, without the options for the sandbox
}

// forwardedFlag is a flag of such a command. It implements [pflag.Value].
type forwardedFlag struct {
	runflags.Flag
	to *forwarded
}

func (f forwardedFlag) String() string { return f.to.given[f.Name] }

func (f forwardedFlag) Type() string {
	if f.Arg == "" {
		return "bool"
	}
	return f.Arg
}

func (f forwardedFlag) Set(value string) error {
	typed := "--" + f.Name
	if short := "-" + f.Short; f.Short != "" && slices.Contains(os.Args, short) {
		typed = short
	}
	f.to.given[f.Name] = value
	f.to.args = append(f.to.args, typed)
	if f.Arg != "" {
		f.to.args = append(f.to.args, value)
		if err := f.Check(value); err != nil {
			return err
		}
		return f.to.Check(f.to.given)
	}
	if value != "true" {
		return errors.New("takes no value")
	}
	return nil
}

// newForwardedCommand returns a command that ralph runs in the sandbox.
func newForwardedCommand(d dispatcher, name string) *cobra.Command {
	f := &forwarded{Command: runflags.Of(name), given: runflags.Given{}}
	use := name + " [OPTIONS]"
	if name == runflags.Shell {
		use += " [-- COMMAND [ARG...]]"
	}
	long := f.Long
	if f.Notes != "" {
		long += "\n\n" + f.Notes
	}
	cmd := &cobra.Command{
		Use:               use,
		SuggestFor:        map[string][]string{runflags.Build: {"up", "start"}, runflags.Shell: {"exec"}}[name],
		Short:             f.Short,
		Long:              help.OnHost(long),
		Example:           help.OnHost(f.Examples),
		Annotations:       map[string]string{ExitCodes: help.OnHost(f.ExitCode)},
		ValidArgsFunction: cobra.NoFileCompletions,
		Args:              func(cmd *cobra.Command, args []string) error { return f.takeArgs(cmd, d.options, args) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return d.run(cmd, f) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(name != runflags.Shell)
	for _, flag := range f.Flags {
		if flag.Name == runflags.Help {
			flags.BoolP(flag.Name, flag.Short, false, flag.Usage)
			continue
		}
		added := flags.VarPF(forwardedFlag{flag, f}, flag.Name, flag.Short, flag.Usage)
		added.DefValue = flag.Default
		added.Hidden = flag.Name == runflags.Danger // the default in a sandbox
		if flag.Arg == "" {
			added.NoOptDefVal = "true"
		} else {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, completeWords(flag.Values...))
		}
	}
	d.options.flags.VisitAll(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) != nil { // plan has its own --dry-run
			return
		}
		if f.Name == "detach" && !host.IsLoop(name) { // the error for it says where it works
			hidden := *f
			hidden.Hidden = true
			f = &hidden
		}
		flags.AddFlag(f)
	})
	return cmd
}

// takeArgs accepts the command of "shell". Other commands have flags only: a word is the name
// for a --worktree without one.
func (f *forwarded) takeArgs(cmd *cobra.Command, o *options, args []string) error {
	switch {
	case f.Name == runflags.Shell:
		if len(args) > 0 {
			f.args = append(f.args, append([]string{"--"}, args...)...)
		}
		return nil
	case len(args) == 1 && o.worktree.name == randomName:
		return o.worktree.name.Set(args[0])
	}
	err := cli.NoArgs(cmd, args)
	if f.Name == runflags.Run {
		err = hint.Wrap(err, "pass a prompt with -p")
	}
	return err
}

// fitStreams selects the streams of a command, and reports whether its output is passed
// on unfiltered. An agent with a single prompt gets no terminal.
func (d dispatcher) fitStreams(h *host.Host, f *forwarded) (raw bool, err error) {
	once := f.given[runflags.Prompt] != ""
	switch {
	case f.Name == runflags.Shell:
		return h.Terminal != nil || !d.cli.Out().IsTerminal(), nil
	case f.Name != runflags.Run:
		return false, nil
	case once && d.cli.In().IsTerminal():
		h.Terminal, h.Stdin = nil, nil
	case !once && d.cli.In().IsTerminal() && h.Terminal == nil:
		return false, hint.Wrap(errors.New("the agent's interface needs a terminal: standard output is not a terminal"), "pass a prompt with -p or on standard input")
	}
	return h.Terminal != nil, nil
}
