// Package container is the driver that makes sandboxes of hardened containers
// on any Docker Engine.
package container

import (
	"context"
	"io"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// API is what the driver uses of the Engine API.
type API interface {
	ContainerCreate(context.Context, client.ContainerCreateOptions) (client.ContainerCreateResult, error)
	ContainerInspect(context.Context, string, client.ContainerInspectOptions) (client.ContainerInspectResult, error)
	ContainerList(context.Context, client.ContainerListOptions) (client.ContainerListResult, error)
	ContainerLogs(context.Context, string, client.ContainerLogsOptions) (client.ContainerLogsResult, error)
	ContainerRemove(context.Context, string, client.ContainerRemoveOptions) (client.ContainerRemoveResult, error)
	ContainerStart(context.Context, string, client.ContainerStartOptions) (client.ContainerStartResult, error)
	ContainerStop(context.Context, string, client.ContainerStopOptions) (client.ContainerStopResult, error)
	ContainerTop(context.Context, string, client.ContainerTopOptions) (client.ContainerTopResult, error)
	ContainerWait(context.Context, string, client.ContainerWaitOptions) client.ContainerWaitResult
	ExecAttach(context.Context, string, client.ExecAttachOptions) (client.ExecAttachResult, error)
	ExecCreate(context.Context, string, client.ExecCreateOptions) (client.ExecCreateResult, error)
	ExecInspect(context.Context, string, client.ExecInspectOptions) (client.ExecInspectResult, error)
	ExecResize(context.Context, string, client.ExecResizeOptions) (client.ExecResizeResult, error)
	ImageInspect(context.Context, string, ...client.ImageInspectOption) (client.ImageInspectResult, error)
	ImageLoad(context.Context, io.Reader, ...client.ImageLoadOption) (client.ImageLoadResult, error)
	ImageRemove(context.Context, string, client.ImageRemoveOptions) (client.ImageRemoveResult, error)
	ImageTag(context.Context, client.ImageTagOptions) (client.ImageTagResult, error)
	Info(context.Context, client.InfoOptions) (client.SystemInfoResult, error)
	VolumeCreate(context.Context, client.VolumeCreateOptions) (client.VolumeCreateResult, error)
	VolumeInspect(context.Context, string, client.VolumeInspectOptions) (client.VolumeInspectResult, error)
}

// Home is the home directory of the agent's user in every sandbox. It is a
// volume of the sandbox, filled from the image.
const Home = "/home/agent"

// Driver is the container driver.
type Driver struct {
	API API
	// Host is the engine's address, to tell a remote one.
	Host string
	// StateDir is where the driver notes which sandboxes it has prepared.
	StateDir string
}

var _ lifecycle.Driver = (*Driver)(nil)

// Name implements [lifecycle.Driver].
func (d *Driver) Name() string { return "container" }
