package container

import (
	"errors"
	"fmt"
	"os"

	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/credential/sshsign"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Forget removes what the host keeps of a sandbox that was removed, or whose engine is gone.
func (d *Driver) Forget(sb lifecycle.Sandbox) error {
	if staging, err := agentconfig.StagingAt(sb.Config, d.Name(), sb.Name); err == nil {
		if err := staging.Remove(); err != nil {
			return fmt.Errorf("removing sandbox %s: %w", sb.Name, err)
		}
	}
	err := markers.Remove(d.StateDir, sb.Name)
	for _, path := range []string{d.resolverPath(sb.Name), sshsign.Dir(d.StateDir, sb.Name)} {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return fmt.Errorf("removing sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// GitVolumeOf returns the name of the git volume of a sandbox.
func GitVolumeOf(sandbox string) string { return gitVolume(sandbox) }
