package lifecycle

import (
	"errors"
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
	cause := err
	for inner := err; client.IsErrConnectionFailed(inner); inner = errors.Unwrap(inner) {
		cause = inner
	}
	if _, several := cause.(interface{ Unwrap() []error }); several {
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

// Unreachable adds a remedy to the error of an engine that cannot be reached.
func Unreachable(err error, denied bool) error {
	if denied {
		return hint.Wrap(err, `become a member of the group that may use it, often with "sudo usermod -aG docker $USER", and log in again`)
	}
	return hint.Wrap(err, `start Docker Desktop, or the engine with "sudo systemctl start docker"; or choose another one with "docker context use NAME" or DOCKER_HOST`)
}
