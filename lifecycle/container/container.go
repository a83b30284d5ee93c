// Package container is the driver that runs sandboxes as hardened containers on a
// Docker Engine.
package container

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// API is the part of the Engine API that the driver uses.
type API interface {
	ContainerAttach(context.Context, string, client.ContainerAttachOptions) (client.ContainerAttachResult, error)
	ContainerCommit(context.Context, string, client.ContainerCommitOptions) (client.ContainerCommitResult, error)
	ContainerCreate(context.Context, client.ContainerCreateOptions) (client.ContainerCreateResult, error)
	ContainerInspect(context.Context, string, client.ContainerInspectOptions) (client.ContainerInspectResult, error)
	ContainerList(context.Context, client.ContainerListOptions) (client.ContainerListResult, error)
	ContainerLogs(context.Context, string, client.ContainerLogsOptions) (client.ContainerLogsResult, error)
	ContainerRemove(context.Context, string, client.ContainerRemoveOptions) (client.ContainerRemoveResult, error)
	ContainerStats(context.Context, string, client.ContainerStatsOptions) (client.ContainerStatsResult, error)
	ContainerStatPath(context.Context, string, client.ContainerStatPathOptions) (client.ContainerStatPathResult, error)
	ContainerStart(context.Context, string, client.ContainerStartOptions) (client.ContainerStartResult, error)
	ContainerStop(context.Context, string, client.ContainerStopOptions) (client.ContainerStopResult, error)
	ContainerTop(context.Context, string, client.ContainerTopOptions) (client.ContainerTopResult, error)
	ContainerUnpause(context.Context, string, client.ContainerUnpauseOptions) (client.ContainerUnpauseResult, error)
	ContainerWait(context.Context, string, client.ContainerWaitOptions) client.ContainerWaitResult
	CopyFromContainer(context.Context, string, client.CopyFromContainerOptions) (client.CopyFromContainerResult, error)
	CopyToContainer(context.Context, string, client.CopyToContainerOptions) (client.CopyToContainerResult, error)
	DiskUsage(context.Context, client.DiskUsageOptions) (client.DiskUsageResult, error)
	ExecAttach(context.Context, string, client.ExecAttachOptions) (client.ExecAttachResult, error)
	ExecCreate(context.Context, string, client.ExecCreateOptions) (client.ExecCreateResult, error)
	ExecInspect(context.Context, string, client.ExecInspectOptions) (client.ExecInspectResult, error)
	ExecResize(context.Context, string, client.ExecResizeOptions) (client.ExecResizeResult, error)
	ImageInspect(context.Context, string, ...client.ImageInspectOption) (client.ImageInspectResult, error)
	ImageList(context.Context, client.ImageListOptions) (client.ImageListResult, error)
	ImageLoad(context.Context, io.Reader, ...client.ImageLoadOption) (client.ImageLoadResult, error)
	ImageRemove(context.Context, string, client.ImageRemoveOptions) (client.ImageRemoveResult, error)
	ImageTag(context.Context, client.ImageTagOptions) (client.ImageTagResult, error)
	Info(context.Context, client.InfoOptions) (client.SystemInfoResult, error)
	NetworkConnect(context.Context, string, client.NetworkConnectOptions) (client.NetworkConnectResult, error)
	NetworkCreate(context.Context, string, client.NetworkCreateOptions) (client.NetworkCreateResult, error)
	NetworkList(context.Context, client.NetworkListOptions) (client.NetworkListResult, error)
	NetworkRemove(context.Context, string, client.NetworkRemoveOptions) (client.NetworkRemoveResult, error)
	ServerVersion(context.Context, client.ServerVersionOptions) (client.ServerVersionResult, error)
	VolumeCreate(context.Context, client.VolumeCreateOptions) (client.VolumeCreateResult, error)
	VolumeInspect(context.Context, string, client.VolumeInspectOptions) (client.VolumeInspectResult, error)
	VolumeList(context.Context, client.VolumeListOptions) (client.VolumeListResult, error)
	VolumeRemove(context.Context, string, client.VolumeRemoveOptions) (client.VolumeRemoveResult, error)
}

// Home is the home directory of the agent's user in sandboxes, a volume filled
// from the image.
const Home = "/home/agent"

// Driver is the container driver.
type Driver struct {
	API API
	// Host is the engine's address.
	Host string
	// StateDir is the directory of the driver's records.
	StateDir string
	// Report prints warnings and progress messages; may be nil.
	Report func(message string)

	engine engine
}

// engine caches answers of the engine.
type engine struct {
	mu   sync.Mutex
	info *system.Info
	// guest is the installed ralph, and egress the ID of the proxy's image. Each has
	// a lock, so that they are looked up in parallel.
	guestMu  sync.Mutex
	guest    *guestbin.Payload
	egressMu sync.Mutex
	egress   string
	// engineNets are the networks of the last listing.
	engineNets *engineNetworks
	// open are the sandboxes with an open network that were started and have no firewall
	// yet.
	open map[string]bool
	// started are the sandboxes that this process has started, so that their mounts
	// are current.
	started map[string]bool
}

// info returns the engine's system information.
func (d *Driver) info(ctx context.Context) (system.Info, error) {
	d.engine.mu.Lock()
	defer d.engine.mu.Unlock()
	if d.engine.info == nil {
		res, err := d.API.Info(ctx, client.InfoOptions{})
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // the client does not wrap it
		}
		if err != nil {
			return system.Info{}, fmt.Errorf("reading the engine's system information: %w", err)
		}
		d.engine.info = &res.Info
	}
	return *d.engine.info, nil
}

var _ lifecycle.Driver = (*Driver)(nil)

// Name implements [lifecycle.Driver].
func (d *Driver) Name() string { return "container" }
