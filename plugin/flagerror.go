package plugin

import (
	"errors"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// flagExitCode is the exit code of docker's commands after a wrong flag.
const flagExitCode = 125

// flagError returns the error of an invalid flag as the Docker CLI does, with a hint.
func (o *options) flagError(cmd *cobra.Command, err error) error {
	status, _ := errors.AsType[cli.StatusError](cli.FlagErrorFunc(cmd, err))
	status.Cause = err
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return status
	}
	name := unknown.GetSpecifiedName()
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	near := hint.Nearest(name, known)
	switch {
	case cmd.Flags() == o.flags:
		status.Cause = misplaced(err)
	case name == "worktree" && !worksElsewhere(topCommand(cmd)):
		status.Cause = hint.Wrap(err, inWorktree)
	case o.flags.Lookup(name) != nil:
		status.Cause = hint.Wrap(err, "pass it before %q", cmd.Name())
	case near != "":
		status.Cause = hint.Wrap(err, "did you mean %q?", "--"+near)
	}
	return status
}

// UsageError returns the error of an invalid command line as it is printed. Cobra does not call
// the flag error function for a flag before the command.
func UsageError(err error) error {
	if err == nil {
		return nil
	}
	if status, done := errors.AsType[cli.StatusError](err); done {
		status.Status = plainly(status.Status)
		return status
	}
	_, unknown := errors.AsType[*pflag.NotExistError](err)
	_, missing := errors.AsType[*pflag.ValueRequiredError](err)
	_, invalid := errors.AsType[*pflag.InvalidValueError](err)
	_, syntax := errors.AsType[*pflag.InvalidSyntaxError](err)
	if unknown || missing || invalid || syntax {
		return cli.StatusError{
			StatusCode: flagExitCode,
			Status:     plainly(err.Error()) + "\n\nRun 'docker ralph --help' for more information",
			Cause:      misplaced(err),
		}
	}
	if text, docker := strings.CutPrefix(err.Error(), "docker: "); docker { // from its checks of arguments
		return hint.Reword(err, text)
	}
	return err
}

// misplaced adds a hint to the error of a flag that belongs after a command.
func misplaced(err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	name := unknown.GetSpecifiedName()
	var commands []string
	for _, command := range []string{runflags.Build, runflags.Plan, runflags.Run} {
		for _, f := range runflags.Of(command).Flags {
			if f.Name == name || f.Short == name {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) == 0 {
		return err
	}
	return hint.Wrap(err, "pass it after %s", strings.Join(commands, " or "))
}

// parsing matches the prefix of strconv's errors.
var parsing = lazyregexp.New(`strconv\.Parse[A-Za-z]+: parsing "(?:[^"\\]|\\.)*": `)

func plainly(message string) string { return parsing().ReplaceAllLiteralString(message, "") }
