package container

import (
	"context"
	"path"
	"runtime"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
)

// Signs returns why a container cannot use a unix socket of this machine; empty if it
// can.
func (d *Driver) Signs(ctx context.Context, runtimeName string) (why string, err error) {
	if runtime.GOOS != "linux" || !strings.HasPrefix(d.Host, "unix://") {
		return "sockets of this machine can only be mounted by a Linux engine at a unix:// address", nil
	}
	info, err := d.info(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case strings.Contains(info.OperatingSystem, "Docker Desktop"):
		return "sockets of this machine cannot be mounted by Docker Desktop", nil
	case d.hasOwnStack(ctx, runtimeName):
		return "sockets of this machine cannot be mounted with this container runtime", nil
	}
	return "", nil
}

// SignProgram returns the path of the program in a sandbox that git calls to sign.
func (d *Driver) SignProgram(sb lifecycle.Sandbox) (string, error) {
	program, ok := d.readMarker(sb)
	if !ok {
		return "", lifecycle.ErrNotPrepared
	}
	return path.Join(path.Dir(program.Path()), wire.SignProgram), nil
}
