package container

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// marker records on the host that a container was prepared, and for which ralph. If it
// is lost, Prepare runs again.
type marker struct {
	ID   string `json:"id"`
	Arch string `json:"arch"`
	Hash string `json:"hash"`
	// Program is the path of ralph in the sandbox.
	Program string `json:"program"`
	// Run and Egress are the state in which isolation was verified, and the program.
	Run    string `json:"run,omitempty"`
	Around string `json:"around,omitempty"` // [engineNetworks.digest] at the time
	Egress string `json:"egress,omitempty"`
	// ProxyConfig is the hash of the configuration of its proxy: [proxyConfigHash].
	ProxyConfig string `json:"proxy_config,omitempty"`
	// Root and Scope are those of the sandbox.
	Root  string        `json:"root,omitempty"`
	Scope gitrepo.Scope `json:"scope,omitzero"`
	// Folder identifies the worktree's directory; empty if unknown.
	Folder string `json:"folder,omitempty"`
	// Limits are those of the last [Driver.Adjust].
	Limits limits `json:"limits,omitzero"`
}

// markers are the records of containers. A damaged one counts: its sandbox may exist.
var markers = scopes.Section[marker]("container")

// Known reports whether a sandbox of this name has a record in stateDir.
func Known(stateDir, name string) bool {
	_, found, err := markers.Read(stateDir, name)
	return found || err != nil
}

// KnownID returns the ID of the sandbox of this name that was prepared last; empty if there is no
// record of one.
func KnownID(stateDir, name string) string {
	m, _, _ := markers.Read(stateDir, name)
	return m.ID
}

// AllKnown returns the names of the sandboxes that have a record in stateDir.
func AllKnown(stateDir string) ([]string, error) {
	all, err := markers.All(stateDir)
	return slices.Sorted(maps.Keys(all)), err
}

// CreatedFor reports whether, according to stateDir, the sandbox of the spec's name was
// prepared for its scope and worktree.
func CreatedFor(stateDir string, spec lifecycle.Spec) bool {
	m, ok, _ := markers.Read(stateDir, spec.Name)
	return ok && m.Root == spec.Root && m.Scope == spec.Scope
}

func (d *Driver) readMarker(sb lifecycle.Sandbox) (guestbin.Payload, bool) {
	p, _, ok := d.readFullMarker(sb)
	return p, ok
}

func (d *Driver) readFullMarker(sb lifecycle.Sandbox) (guestbin.Payload, marker, bool) {
	m, ok := d.lastMarker(sb.Name)
	if !ok || m.ID != sb.ID {
		return guestbin.Payload{}, marker{}, false
	}
	p, err := guestbin.For(m.Arch)
	if m.Program == p.Readable().Path() {
		p = p.Readable()
	}
	return p, m, err == nil && p.Hash == m.Hash
}

// lastMarker returns the record of the last sandbox of that name, which may not exist.
func (d *Driver) lastMarker(name string) (m marker, ok bool) {
	m, ok, _ = markers.Read(d.StateDir, name)
	return m, ok
}

func (d *Driver) writeMarker(sb lifecycle.Sandbox, p guestbin.Payload, v verified) error {
	last, _ := d.lastMarker(sb.Name)
	m := marker{ID: sb.ID, Arch: p.Arch(), Hash: p.Hash, Program: p.Path(), Run: v.run, ProxyConfig: v.proxyConfig, Root: sb.Root, Scope: sb.Scope}
	if last.ID == sb.ID {
		m.Limits = last.Limits
	}
	if !sb.Clone {
		m.Folder = folderID(sb.Root)
	}
	if v.run != "" && !v.outdated {
		program, err := guestbin.Egress(p.Arch())
		if err != nil {
			return err
		}
		m.Egress, m.Around = program.Hash, v.networks
	}
	return d.saveMarker(sb.Name, m)
}

func (d *Driver) saveMarker(name string, m marker) error {
	if err := markers.Write(d.StateDir, name, m); err != nil {
		return fmt.Errorf("recording that %s is prepared: %w", name, err)
	}
	return nil
}

// changeMarker changes the record of a prepared sandbox, if there is one.
func (d *Driver) changeMarker(sb lifecycle.Sandbox, change func(*marker)) error {
	m, ok := d.lastMarker(sb.Name)
	if !ok || m.ID != sb.ID {
		return nil
	}
	change(&m)
	return d.saveMarker(sb.Name, m)
}

// Unprepare makes the next command prepare a sandbox again.
func (d *Driver) Unprepare(sb lifecycle.Sandbox) error {
	if err := markers.Remove(d.StateDir, sb.Name); err != nil {
		return fmt.Errorf("removing the record of %s: %w", sb.Name, err)
	}
	return nil
}

// Ready implements [lifecycle.Driver]. A sandbox is isolated if nothing of its network
// was restarted since that was verified, and the networks of the engine, if they were
// listed, are the same.
func (d *Driver) Ready(sb lifecycle.Sandbox, spec lifecycle.Spec) bool {
	m, ok := d.prepared(sb)
	return ok && d.proxyUpToDate(sb, m.ProxyConfig, spec.Egress)
}

// prepared is Ready whatever the configuration of its proxy.
func (d *Driver) prepared(sb lifecycle.Sandbox) (marker, bool) {
	_, m, ok := d.readFullMarker(sb)
	if !ok || m.rootReplaced(sb.Root) {
		return m, false
	}
	if sb.Egress == "" {
		return m, true
	}
	d.cached.mu.Lock()
	engineNets := d.cached.networks
	d.cached.mu.Unlock()
	if engineNets != nil && engineNets.digest() != m.Around {
		return m, false
	}
	program, err := guestbin.Egress(m.Arch)
	return m, err == nil && m.Run == sb.Run && m.Egress == program.Hash
}

// Prepare implements [lifecycle.Driver]. Afterwards this version of ralph is on the
// volume, and the worktree and the isolation of the sandbox are verified.
func (d *Driver) Prepare(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	if err := d.remount(ctx, sb); err != nil {
		return err
	}
	if err := checkMounts(spec); err != nil { // again, now that mounts cannot change
		return err
	}
	p, err := d.ensureRalph(ctx, spec.Runtime)
	if err != nil {
		return err
	}
	var v verified
	group, groupCtx := errgroup.WithContext(ctx)
	if sb.Egress != "" {
		group.Go(func() (err error) { v, err = d.verify(groupCtx, sb, spec); return err })
	}
	// Not canceled: an engine that is interrupted while it reads a file may never release
	// the volumes.
	group.Go(func() error { return d.checkProbe(ctx, sb.ID, spec.Probe) })
	if m, ok := d.lastMarker(sb.Name); !ok || m.ID != sb.ID {
		group.Go(func() error { return d.fillVolumes(ctx, sb, spec) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return d.writeMarker(sb, p, v)
}

// fillVolumes prepares the volumes of a sandbox in which no command has run.
func (d *Driver) fillVolumes(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	if err := d.fillGit(ctx, sb, spec); err != nil {
		return err
	}
	return d.prepareDirs(ctx, sb, spec)
}

// checkProbe compares a file of the worktree with the engine's file at the same path.
// They differ if the engine runs on another machine that has such a directory too.
func (d *Driver) checkProbe(ctx context.Context, id, probe string) error {
	if probe == "" {
		return nil
	}
	info, err := os.Stat(probe)
	if err != nil {
		return fmt.Errorf("reading the repository: %w", err)
	}
	// Stat first, because engines start a process to read a file. Not every shared file
	// system preserves times.
	res, err := d.API.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: probe})
	if err == nil && res.Stat.Mode.IsRegular() && res.Stat.Size == info.Size() && res.Stat.Mtime.Equal(info.ModTime()) {
		return nil
	}
	want, err := os.ReadFile(probe)
	if err != nil {
		return fmt.Errorf("reading the repository: %w", err)
	}
	_, got, err := engine.ReadFile(ctx, d.API, id, probe)
	if err != nil {
		return hint.Wrap(fmt.Errorf("the engine does not share this machine's worktree: %w", err), "%s", cloneHint)
	}
	if !bytes.Equal(want, got) {
		return hint.Wrap(fmt.Errorf("the engine does not share this machine's files (%s differs)", probe), "%s", cloneHint)
	}
	return nil
}
