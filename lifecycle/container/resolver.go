package container

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/sys/atomicwriter"
)

// resolverFile is where programs look who knows names.
const resolverFile = "/etc/resolv.conf"

// resolverMount is a mount that names a sandbox's proxy as its resolver. The
// engine's own file names a resolver at an address of the loopback, to which it
// leads by rules of the kernel: they have no effect on the stack of a runtime
// that brings its own, and names would not be found.
func (d *Driver) resolverMount(sandbox string, proxy netip.Addr) (mount.Mount, error) {
	path := d.resolverPath(sandbox)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = atomicwriter.WriteFile(path, []byte("nameserver "+proxy.String()+"\n"), 0o644)
	}
	if err != nil {
		return mount.Mount{}, fmt.Errorf("saying who knows names in the sandbox %s: %w", sandbox, err)
	}
	return mount.Mount{
		Type: mount.TypeBind, Source: path, Target: resolverFile, ReadOnly: true,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
	}, nil
}

// resolverPath is the file of a sandbox that resolverMount mounts.
func (d *Driver) resolverPath(sandbox string) string {
	return filepath.Join(d.StateDir, "sandboxes", sandbox+".resolv.conf")
}
