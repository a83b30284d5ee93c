// Package container is the driver that runs sandboxes as hardened containers on a
// Docker Engine.
package container

import (
	"context"
	"fmt"
	"sync"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/programs"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/userimage"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// Driver is the container driver.
type Driver struct {
	API engine.API
	// Host is the engine's address.
	Host string
	// StateDir is the directory of the driver's records.
	StateDir string
	// Report prints warnings and progress messages; may be nil.
	Report func(message string)

	cached cache
}

// cache has what the driver learned from the engine.
type cache struct {
	mu        sync.Mutex
	info      *system.Info
	installer *programs.Installer
	// networks are those of the last listing.
	networks *engineNetworks
	// open are the started sandboxes with the policy allow-all that have no firewall yet.
	open map[string]bool
	// started are the sandboxes that this process has started, so that their mounts
	// are current.
	started map[string]bool
	// execs are those that may run, but no services: execKey to startedExec.
	execs sync.Map
}

// info returns the engine's system information.
func (d *Driver) info(ctx context.Context) (system.Info, error) {
	d.cached.mu.Lock()
	defer d.cached.mu.Unlock()
	if d.cached.info == nil {
		res, err := d.API.Info(ctx, client.InfoOptions{})
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // the client does not wrap it
		}
		if err != nil {
			return system.Info{}, fmt.Errorf("reading the engine's system information: %w", err)
		}
		d.cached.info = &res.Info
	}
	return *d.cached.info, nil
}

// installer returns the installer of ralph and ralph-egress.
func (d *Driver) installer(ctx context.Context) (*programs.Installer, error) {
	info, err := d.info(ctx)
	if err != nil {
		return nil, err
	}
	d.cached.mu.Lock()
	defer d.cached.mu.Unlock()
	if d.cached.installer == nil {
		d.cached.installer = &programs.Installer{API: d.API, Arch: info.Architecture, Warn: d.report}
	}
	return d.cached.installer, nil
}

// ensureRalph ensures that this version of ralph is on the engine, and returns the copy for a runtime. gVisor
// starts only programs that their user can read.
func (d *Driver) ensureRalph(ctx context.Context, runtime string) (guestbin.Payload, error) {
	installer, err := d.installer(ctx)
	if err != nil {
		return guestbin.Payload{}, err
	}
	p, err := installer.Ralph(ctx)
	if d.hasOwnStack(ctx, runtime) {
		p = p.Readable()
	}
	return p, err
}

// ensureEgress returns the ID of the image of ralph-egress.
func (d *Driver) ensureEgress(ctx context.Context) (string, error) {
	installer, err := d.installer(ctx)
	if err != nil {
		return "", err
	}
	return installer.Egress(ctx)
}

func (d *Driver) users() userimage.Mapper { return userimage.Mapper{API: d.API, StateDir: d.StateDir} }

var _ lifecycle.Driver = (*Driver)(nil)

// Name implements [lifecycle.Driver].
func (d *Driver) Name() string { return "container" }
