package container

import (
	"context"
	"path"
	"runtime"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Signs reports whether a container can reach a socket of this machine, and if not,
// why: a kernel of its own knows nothing of it.
func (d *Driver) Signs(ctx context.Context, runtimeName string) (why string, err error) {
	if runtime.GOOS != "linux" || !strings.HasPrefix(d.Host, "unix://") {
		return "a sandbox can reach a socket of this machine only with an engine on Linux itself, by a unix:// address", nil
	}
	info, err := d.info(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case strings.Contains(info.OperatingSystem, "Docker Desktop"):
		return "the virtual machine of Docker Desktop does not let a sandbox reach a socket of this machine", nil
	case d.ownsStack(ctx, runtimeName):
		return "the runtime of containers does not let a sandbox reach a socket of this machine", nil
	}
	return "", nil
}

// SignProgram is the program in a sandbox that git calls to sign.
func (d *Driver) SignProgram(sb lifecycle.Sandbox) (string, error) {
	program, ok := d.readMarker(sb)
	if !ok {
		return "", lifecycle.ErrNotPrepared
	}
	return path.Join(path.Dir(program.Path()), wire.SignProgram), nil
}
