package plugin

import (
	"errors"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/pflag"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/runflags"
)

// flagExitCode is the exit code of docker's commands after a wrong flag.
const flagExitCode = 125

// FlagError returns the error of an invalid flag before a command with the exit code and
// hint of one after it. Cobra does not call docker's flag error function while it looks
// for the command.
func FlagError(err error) error {
	if status, done := errors.AsType[cli.StatusError](err); done {
		status.Status = plainly(status.Status)
		return status
	}
	_, unknown := errors.AsType[*pflag.NotExistError](err)
	_, missing := errors.AsType[*pflag.ValueRequiredError](err)
	_, invalid := errors.AsType[*pflag.InvalidValueError](err)
	_, syntax := errors.AsType[*pflag.InvalidSyntaxError](err)
	if !unknown && !missing && !invalid && !syntax {
		return err
	}
	return cli.StatusError{
		StatusCode: flagExitCode,
		Status:     plainly(err.Error()) + "\n\nRun 'docker ralph --help' for more information",
		Cause:      misplaced(err),
	}
}

// misplaced adds a hint to the error of a flag that belongs after a command.
func misplaced(err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var commands []string
	for _, command := range []string{"build", "plan", runCommand} {
		for _, f := range runflags.Of(command) {
			if name := unknown.GetSpecifiedName(); f.Long == "--"+name || f.Short == "-"+name {
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
