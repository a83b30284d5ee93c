package selftest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
)

// Engine is what is asked of the engine.
type Engine interface {
	ServerVersion(context.Context, client.ServerVersionOptions) (client.ServerVersionResult, error)
	DaemonHost() string
}

// oldest is the API of Docker 20.10, the oldest engine that is supported.
const oldest = "1.41"

// engine checks that the engine answers and is new enough.
func (t *test) engine(ctx context.Context) (string, error) {
	detail, err := askEngine(ctx, t.m)
	if err != nil {
		err = t.optional(ctx, err)
	}
	return detail, err
}

func askEngine(ctx context.Context, m Machine) (string, error) {
	engine, err := m.Engine()
	if err != nil {
		return "", err
	}
	v, err := engine.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return "", explainEngine(engine.DaemonHost(), err)
	}
	what := fmt.Sprintf("%s, API %s, at %s", v.Version, v.APIVersion, engine.DaemonHost())
	if versions.LessThan(v.APIVersion, oldest) {
		return "", &remedied{fmt.Errorf("the engine is too old: %s", what), "use Docker 20.10 or newer, whose API is " + oldest}
	}
	return what, nil
}

// explainEngine adds what to do when an engine does not answer.
func explainEngine(host string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &remedied{err, `become a member of the group that may use it, often with "sudo usermod -aG docker $USER", and log in again`}
	case client.IsErrConnectionFailed(err), errors.Is(err, context.DeadlineExceeded):
		return &remedied{err, `start Docker Desktop, or the engine with "sudo systemctl start docker"; or choose another one with "docker context use NAME" or DOCKER_HOST`}
	default:
		return fmt.Errorf("no Docker Engine at %s: %w", host, err)
	}
}
