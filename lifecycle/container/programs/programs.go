// Package programs installs ralph and ralph-egress on a Docker Engine: ralph in a volume
// that all sandboxes mount, and ralph-egress as an image.
package programs

import (
	"sync"

	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// ProxyUID is the user ID of proxies, to whom their directory in the image belongs.
const ProxyUID = 65534

// Installer installs the programs of this version. It checks once for each.
type Installer struct {
	API engine.API
	// Arch is the engine's architecture.
	Arch string
	// Warn prints warnings.
	Warn func(message string)

	// Each has a lock, so that they are looked up in parallel.
	ralphMu  sync.Mutex
	ralph    *guestbin.Payload
	egressMu sync.Mutex
	egress   string // image ID
}
