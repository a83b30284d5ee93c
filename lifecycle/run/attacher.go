package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// LeaveLoop starts a process that answers the requests of a loop, and fetches its commits, after the user has detached
// from it with keys. It ends with the loop.
func LeaveLoop(ctx context.Context, h host.Host, sandbox string) {
	if len(h.Attacher) == 0 {
		return
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), h.Attacher[0], append(slices.Clone(h.Attacher[1:]), sandbox)...)
	cmd.Dir = h.Dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "DOCKER_CLI_PLUGIN_SOCKET=") // ends with the Docker CLI
	})
	lifecycle.Outlive(cmd)
	err := cmd.Start()
	if err == nil {
		err = cmd.Process.Release()
	}
	if err != nil {
		h.Warn(fmt.Errorf("following the loop in the background: %w", err))
	}
}
