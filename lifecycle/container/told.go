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

// A proxy outlives the runs of its sandbox. What it was told when it was made can
// have changed until the next one: another proxy of the host, other certificates,
// other rules. Then it is made anew. While its sandbox runs it keeps what it has,
// because commands that run rely on it.

// startOf is what a proxy is told when it is made, without what is only known then.
func startOf(e lifecycle.Egress) egress.Start {
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

// toldOf identifies what a proxy is told. It is made of text that can have a
// password in it, so it is kept where only the user can read it.
func toldOf(e lifecycle.Egress) (string, error) {
	b, err := json.Marshal(startOf(e))
	if err != nil {
		return "", fmt.Errorf("writing down what the proxy is told: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// upToDate reports whether a proxy that was told something may stay for what a spec
// says now.
func (d *Driver) upToDate(sb lifecycle.Sandbox, was string, e lifecycle.Egress) bool {
	if sb.Proxy == "" || !d.startedHere(sb) {
		return true
	}
	told, err := toldOf(e)
	return err == nil && told == was
}

// startedHere reports whether this program has started a sandbox.
func (d *Driver) startedHere(sb lifecycle.Sandbox) bool {
	d.engine.mu.Lock()
	defer d.engine.mu.Unlock()
	return d.engine.started[sb.ID]
}

// leftBehind reports whether a proxy is there from an earlier run of the sandbox, and
// was told something else than the spec says now.
func (d *Driver) leftBehind(sb lifecycle.Sandbox, owner, proxy container.InspectResponse, e lifecycle.Egress) bool {
	_, m, _ := d.readWholeMarker(sb)
	return m.Run != "" && m.Run == runOf(owner, proxy) && !d.upToDate(sb, m.Told, e)
}
