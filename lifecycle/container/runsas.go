package container

import (
	"context"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// RunsAs returns the UID:GID in a container that has the permissions of user on the
// host.
func RunsAs(ctx context.Context, api engine.API, user lifecycle.User) (string, error) {
	info, err := (&Driver{API: api}).info(ctx)
	if err != nil {
		return "", err
	}
	return chooseUser(info, lifecycle.Spec{User: user})
}
