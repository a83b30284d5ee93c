package container

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/scopes"
)

// resolverFile is the resolver configuration of programs.
const resolverFile = "/etc/resolv.conf"

// resolverMount mounts a resolv.conf with a sandbox's proxy as its resolver. The engine's
// file has a loopback address that is redirected by netfilter, which has no effect on
// runtimes with their own network stack.
func (d *Driver) resolverMount(sandbox string, proxy netip.Addr) (mount.Mount, error) {
	path := d.resolverPath(sandbox)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = atomicwriter.WriteFile(path, []byte("nameserver "+proxy.String()+"\n"), 0o644)
	}
	if err != nil {
		return mount.Mount{}, fmt.Errorf("writing the resolv.conf of sandbox %s: %w", sandbox, err)
	}
	return mount.Mount{
		Type: mount.TypeBind, Source: path, Target: resolverFile, ReadOnly: true,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
	}, nil
}

// resolverPath returns the path of the file that resolverMount mounts.
func (d *Driver) resolverPath(sandbox string) string {
	return scopes.Path(d.StateDir, sandbox, "resolv.conf")
}
