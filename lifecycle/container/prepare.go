package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"
	"github.com/moby/sys/atomicwriter"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// marker notes on the host that a sandbox was prepared, and for which ralph.
// It belongs to one container: another one of the same name has another ID.
// A lost marker only means that Prepare is done again.
type marker struct {
	ID   string `json:"id"`
	Arch string `json:"arch"`
	Hash string `json:"hash"`
	// Netns is what holds the network: [lifecycle.Sandbox.Netns].
	Netns string `json:"netns,omitempty"`
	// Run and Egress are what the wall was raised around, and by which program.
	Run    string `json:"run,omitempty"`
	Around string `json:"around,omitempty"` // [surroundings.digest] at the time
	Egress string `json:"egress,omitempty"`
	// Told is what the proxy was told: [toldOf].
	Told string `json:"told,omitempty"`
	// Root and Scope are those of the sandbox.
	Root  string        `json:"root,omitempty"`
	Scope gitrepo.Scope `json:"scope,omitzero"`
	// Folder is which folder the work tree was then; empty if nobody can tell.
	Folder string `json:"folder,omitempty"`
}

// Known reports whether a sandbox of this name was prepared, by what is noted in
// stateDir.
func Known(stateDir, name string) bool {
	_, err := os.Stat((&Driver{StateDir: stateDir}).markerPath(name))
	return err == nil
}

// MadeFor reports whether the sandbox of the spec's name was prepared for its scope and
// work tree, by what is noted in stateDir.
func MadeFor(stateDir string, spec lifecycle.Spec) bool {
	m, ok := (&Driver{StateDir: stateDir}).lastMarker(spec.Name)
	return ok && m.Root == spec.Root && m.Scope == spec.Scope
}

func (d *Driver) readMarker(sb lifecycle.Sandbox) (guestbin.Payload, bool) {
	p, _, ok := d.readWholeMarker(sb)
	return p, ok
}

func (d *Driver) readWholeMarker(sb lifecycle.Sandbox) (guestbin.Payload, marker, bool) {
	m, ok := d.lastMarker(sb.Name)
	if !ok || m.ID != sb.ID {
		return guestbin.Payload{}, marker{}, false
	}
	p, err := guestbin.For(m.Arch)
	return p, m, err == nil && p.Hash == m.Hash
}

// lastMarker is the marker of the latest sandbox of that name, which may be gone.
func (d *Driver) lastMarker(name string) (m marker, ok bool) {
	b, err := os.ReadFile(d.markerPath(name))
	if err != nil || json.Unmarshal(b, &m) != nil {
		return marker{}, false
	}
	return m, true
}

func (d *Driver) writeMarker(sb lifecycle.Sandbox, p guestbin.Payload, raised wall) error {
	m := marker{ID: sb.ID, Arch: p.Arch(), Hash: p.Hash, Netns: sb.Netns, Run: raised.run, Told: raised.told, Folder: folderID(sb.Root), Root: sb.Root, Scope: sb.Scope}
	if raised.run != "" {
		program, err := guestbin.Egress(p.Arch())
		if err != nil {
			return err
		}
		m.Egress = program.Hash
		d.engine.mu.Lock()
		m.Around = d.engine.around.digest()
		d.engine.mu.Unlock()
	}
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("noting that %s is prepared: %w", sb.Name, err)
	}
	path := d.markerPath(sb.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("noting that %s is prepared: %w", sb.Name, err)
	}
	if err := atomicwriter.WriteFile(path, b, 0o600); err != nil {
		return fmt.Errorf("noting that %s is prepared: %w", sb.Name, err)
	}
	return nil
}

// Unprepare has a sandbox prepared again before it is used next.
func (d *Driver) Unprepare(sb lifecycle.Sandbox) error {
	if err := os.Remove(d.markerPath(sb.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting that %s is prepared: %w", sb.Name, err)
	}
	return nil
}

// Ready implements [lifecycle.Driver]. The wall around a sandbox stands if
// nothing of its network was restarted since it was raised, and the networks
// around it, as far as they were looked at, are the same.
func (d *Driver) Ready(sb lifecycle.Sandbox, spec lifecycle.Spec) bool {
	m, ok := d.prepared(sb)
	return ok && d.upToDate(sb, m.Told, spec.Egress)
}

// prepared is Ready for whatever its proxy was told.
func (d *Driver) prepared(sb lifecycle.Sandbox) (marker, bool) {
	_, m, ok := d.readWholeMarker(sb)
	if !ok || m.replaced(sb.Root) {
		return m, false
	}
	if sb.Egress == "" {
		return m, true
	}
	d.engine.mu.Lock()
	around := d.engine.around
	d.engine.mu.Unlock()
	if around != nil && around.digest() != m.Around {
		return m, false
	}
	program, err := guestbin.Egress(m.Arch)
	return m, err == nil && m.Run == sb.Run && m.Egress == program.Hash
}

// Prepare implements [lifecycle.Driver]: ralph of this version is on the
// volume, the home directory belongs to the user, the user has a name, the work
// tree inside is the one outside, and the wall stands.
func (d *Driver) Prepare(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	if err := d.remount(ctx, sb); err != nil {
		return err
	}
	if err := d.regain(ctx, sb); err != nil {
		return err
	}
	if err := checkMounts(spec); err != nil { // once more, now that nothing can change what is mounted
		return err
	}
	p, err := d.ensureGuest(ctx)
	if err != nil {
		return err
	}
	var raised wall
	group, groupCtx := errgroup.WithContext(ctx)
	if sb.Egress != "" {
		group.Go(func() (err error) { raised, err = d.raiseWall(groupCtx, sb, spec); return err })
	}
	// These end by themselves. An engine that is told in the middle of reading a
	// file that nobody wants it any more may never let go of the volumes.
	group.Go(func() error { return d.checkProbe(ctx, sb.ID, spec.Probe) })
	group.Go(func() error {
		if err := d.fitUser(ctx, sb, guestTag(p)); err != nil {
			return fmt.Errorf("preparing the sandbox %s: %w", sb.Name, err)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return d.writeMarker(sb, p, raised)
}

// checkProbe compares a file of the work tree with what the engine sees under
// the same path. They differ when the engine runs on another machine that
// happens to have such a folder too.
func (d *Driver) checkProbe(ctx context.Context, id, probe string) error {
	if probe == "" {
		return nil
	}
	info, err := os.Stat(probe)
	if err != nil {
		return fmt.Errorf("reading the repository: %w", err)
	}
	// Reading a file takes engines a process, and telling how it is does not. Not
	// every way of sharing a folder keeps the time exactly.
	res, err := d.API.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: probe})
	if err == nil && res.Stat.Mode.IsRegular() && res.Stat.Size == info.Size() && res.Stat.Mtime.Equal(info.ModTime()) {
		return nil
	}
	want, err := os.ReadFile(probe)
	if err != nil {
		return fmt.Errorf("reading the repository: %w", err)
	}
	_, got, err := d.readFile(ctx, id, probe)
	if err != nil {
		return fmt.Errorf("the engine does not see the work tree as it is on this machine: %w", err)
	}
	if !bytes.Equal(want, got) {
		return fmt.Errorf("%s is not the same file for the engine as on this machine: the engine runs somewhere else", probe)
	}
	return nil
}

// run executes a command of ours in the sandbox and returns what it wrote. A
// command that fails is an error with its words.
func (d *Driver) run(ctx context.Context, sb lifecycle.Sandbox, user string, args ...string) (output string, err error) {
	return d.runWith(ctx, sb.ID, user, nil, args...)
}

// runWith is run in any container, with something for the command's input.
func (d *Driver) runWith(ctx context.Context, id, user string, stdin io.Reader, args ...string) (output string, err error) {
	made, err := d.API.ExecCreate(ctx, id, client.ExecCreateOptions{User: user, Cmd: args, AttachStdin: stdin != nil, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return "", err
	}
	conn, err := d.API.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	if stdin != nil {
		go func() { _, _ = io.Copy(conn.Conn, stdin) }() // a command that lacks something says so
	}
	var out bytes.Buffer
	if err := demultiplex(&out, &out, conn.Reader); err != nil {
		return "", err
	}
	code, err := d.exitCode(ctx, made.ID)
	if err == nil && code != 0 {
		said, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n") // the rest is hints, or a crash's trace
		err = errors.New(strings.TrimPrefix(said, "Error: "))
	}
	return out.String(), err
}
