package lifecycle

import (
	"errors"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/hint"
)

// ExplainUnreachable turns the error of an engine that cannot be reached into one sentence with a remedy.
// It returns other errors, and those with a remedy of their own, as they are.
func ExplainUnreachable(err error) error {
	if !client.IsErrConnectionFailed(err) || len(hint.Of(err)) > 0 {
		return err
	}
	cause := connectionFailure(err)
	if cause == nil {
		return err
	}
	text := cause.Error()
	denied := strings.HasPrefix(text, "permission denied")
	if _, at, found := strings.Cut(text, " at "); found { // the address is only in the text
		address, _, _ := strings.Cut(at, " ")
		text = "cannot connect to the Docker Engine at " + strings.TrimRight(address, ".:;")
		if denied {
			text += ": permission denied"
		}
	}
	return Unreachable(hint.Reword(err, text), denied)
}

// connectionFailure returns the innermost error that says so; nil if there are others beside it.
func connectionFailure(err error) (cause error) {
	for client.IsErrConnectionFailed(err) {
		cause = err
		joined, is := err.(interface{ Unwrap() []error })
		if !is {
			err = errors.Unwrap(err)
			continue
		}
		all := joined.Unwrap()
		if slices.ContainsFunc(all, func(one error) bool { return !client.IsErrConnectionFailed(one) }) {
			return nil
		}
		err = all[0]
	}
	return cause
}

// Unreachable adds a remedy to the error of an engine that cannot be reached.
func Unreachable(err error, denied bool) error {
	if denied {
		return hint.Wrap(err, `become a member of the group that may use it, often with "sudo usermod -aG docker $USER", and log in again`)
	}
	return hint.Wrap(err, `start Docker Desktop, or the engine with "sudo systemctl start docker"; or choose another one with "docker context use NAME" or DOCKER_HOST`)
}
