package container

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/moby/moby/api/types/container"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// A proxy outlives the runs of its sandbox. If its configuration has changed until the
// next run, such as the upstream proxy, certificates or rules, it is recreated. While
// the sandbox runs, it is kept, because running commands rely on it.

// proxyStart returns the configuration of a proxy, without values that are only known
// when it starts.
func proxyStart(e lifecycle.Egress) egress.Start {
	policy := e.Policy
	if e.Amended.Mode != "" {
		policy = e.Amended
	}
	start := egress.Start{Policy: policy, Upstream: e.Upstream}
	if e.CA != nil {
		start.CA = e.CA()
	}
	return start
}

// proxyConfigHash hashes the configuration of a proxy. It can include a password, so
// the hash is stored where only the user can read it.
func proxyConfigHash(e lifecycle.Egress) (string, error) {
	b, err := json.Marshal(proxyStart(e))
	if err != nil {
		return "", fmt.Errorf("encoding the configuration of the proxy: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// proxyUpToDate reports whether a proxy with this configuration may be kept.
func (d *Driver) proxyUpToDate(sb lifecycle.Sandbox, was string, e lifecycle.Egress) bool {
	if sb.Proxy == "" || !d.startedByUs(sb) {
		return true
	}
	configHash, err := proxyConfigHash(e)
	return err == nil && configHash == was
}

// startedByUs reports whether this process has started a sandbox.
func (d *Driver) startedByUs(sb lifecycle.Sandbox) bool {
	d.engine.mu.Lock()
	defer d.engine.mu.Unlock()
	return d.engine.started[sb.ID]
}

// staleProxy reports whether a proxy is left from an earlier run of the sandbox with
// another configuration.
func (d *Driver) staleProxy(sb lifecycle.Sandbox, owner, proxy container.InspectResponse, e lifecycle.Egress) bool {
	_, m, _ := d.readFullMarker(sb)
	return m.Run != "" && m.Run == runOf(owner, proxy) && !d.proxyUpToDate(sb, m.Told, e)
}
