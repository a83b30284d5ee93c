package selftest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Engine is the part of the engine's API that the self-test needs.
type Engine interface {
	ServerVersion(context.Context, client.ServerVersionOptions) (client.ServerVersionResult, error)
	DaemonHost() string
}

// minAPIVersion is the API version of Docker 20.10, the oldest supported engine.
const minAPIVersion = "1.41"

// engine checks that the engine answers and is new enough.
func (t *test) engine(ctx context.Context) (string, error) {
	detail, err := checkEngine(ctx, t.m)
	if err != nil {
		err = t.optional(ctx, err)
	}
	return detail, err
}

func checkEngine(ctx context.Context, m Machine) (string, error) {
	api, err := m.Engine()
	if err != nil {
		return "", err
	}
	v, err := api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return "", engineError(api.DaemonHost(), err)
	}
	detail := fmt.Sprintf("%s, API %s, at %s", v.Version, v.APIVersion, api.DaemonHost())
	if versions.LessThan(v.APIVersion, minAPIVersion) {
		return "", hint.Wrap(fmt.Errorf("the engine is too old: %s", detail), "use Docker 20.10 or newer, whose API is %s", minAPIVersion)
	}
	return detail, nil
}

// engineError adds a hint to the error of an engine that does not answer.
func engineError(host string, err error) error {
	switch {
	case client.IsErrConnectionFailed(err):
		return lifecycle.ExplainUnreachable(err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, context.DeadlineExceeded):
		return lifecycle.Unreachable(err, errors.Is(err, fs.ErrPermission))
	default:
		return fmt.Errorf("no Docker Engine at %s: %w", host, err)
	}
}
