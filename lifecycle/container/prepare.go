package container

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/payload"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
)

// marker notes on the host that a sandbox was prepared, and for which ralph.
// It belongs to one container: another one of the same name has another ID.
// A lost marker only means that Prepare is done again.
type marker struct {
	ID   string `json:"id"`
	Arch string `json:"arch"`
	Hash string `json:"hash"`
}

func (d *Driver) readMarker(sb lifecycle.Sandbox) (payload.Payload, bool) {
	b, err := os.ReadFile(d.markerPath(sb.Name))
	if err != nil {
		return payload.Payload{}, false
	}
	var m marker
	if err := json.Unmarshal(b, &m); err != nil || m.ID != sb.ID {
		return payload.Payload{}, false
	}
	p, err := payload.For(m.Arch)
	return p, err == nil && p.Hash == m.Hash
}

func (d *Driver) writeMarker(sb lifecycle.Sandbox, p payload.Payload) error {
	b, err := json.Marshal(marker{ID: sb.ID, Arch: p.Arch(), Hash: p.Hash})
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

// Ready implements [lifecycle.Driver].
func (d *Driver) Ready(sb lifecycle.Sandbox) bool {
	_, ok := d.readMarker(sb)
	return ok
}

// Prepare implements [lifecycle.Driver]: ralph of this version is on the
// volume, the home directory belongs to the user, the user has a name, and
// the work tree inside is the one outside.
func (d *Driver) Prepare(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	info, err := d.API.Info(ctx, client.InfoOptions{})
	if err != nil {
		return fmt.Errorf("asking the engine about itself: %w", err)
	}
	p, err := d.ensureGuest(ctx, info.Info.Architecture)
	if err != nil {
		return err
	}
	missing, err := d.check(ctx, sb, spec, p)
	if err != nil {
		return fmt.Errorf("preparing the sandbox %s: %w", sb.Name, err)
	}
	if err := d.mend(ctx, sb, p, missing); err != nil {
		return fmt.Errorf("preparing the sandbox %s: %w", sb.Name, err)
	}
	return d.writeMarker(sb, p)
}

// check asks ralph inside, as the agent's user, what that user lacks.
func (d *Driver) check(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec, p payload.Payload) (missing []string, err error) {
	args := []string{p.Path(), "_check", "--home", Home}
	if spec.Probe != "" {
		digest, err := digestFile(spec.Probe)
		if err != nil {
			return nil, err
		}
		args = append(args, "--probe", spec.Probe, "--digest", digest)
	}
	out, err := d.run(ctx, sb, sb.User, args...)
	return strings.Fields(out), err
}

// mend gives the user what it lacks. The sandbox itself never has the right
// to do so: names are written by root without capabilities, owners are changed
// by a helper container that sees nothing but the home directory.
func (d *Driver) mend(ctx context.Context, sb lifecycle.Sandbox, p payload.Payload, missing []string) error {
	uid, gid, _ := strings.Cut(sb.User, ":")
	if slices.Contains(missing, guest.NeedsName) {
		if _, err := d.run(ctx, sb, "0:0", p.Path(), "_name", uid, gid, Home); err != nil {
			return err
		}
	}
	if slices.Contains(missing, guest.NeedsHome) {
		volume, err := d.homeVolume(ctx, sb)
		if err != nil {
			return err
		}
		home := mount.Mount{Type: mount.TypeVolume, Source: volume, Target: Home}
		return d.runHelper(ctx, guestTag(p), []string{"_own", uid, gid, Home}, home, "CHOWN", "DAC_OVERRIDE")
	}
	return nil
}

// homeVolume returns the name that the engine gave to the sandbox's volume.
func (d *Driver) homeVolume(ctx context.Context, sb lifecycle.Sandbox) (string, error) {
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if err != nil {
		return "", err
	}
	for _, m := range res.Container.Mounts {
		if m.Type == mount.TypeVolume && m.Destination == Home {
			return m.Name, nil
		}
	}
	return "", fmt.Errorf("it has no volume at %s", Home)
}

func digestFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the repository: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// run executes a command of ours in the sandbox and returns what it wrote. A
// command that fails is an error with its words.
func (d *Driver) run(ctx context.Context, sb lifecycle.Sandbox, user string, args ...string) (output string, err error) {
	made, err := d.API.ExecCreate(ctx, sb.ID, client.ExecCreateOptions{User: user, Cmd: args, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return "", err
	}
	conn, err := d.API.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var out bytes.Buffer
	if err := demultiplex(&out, &out, conn.Reader); err != nil {
		return "", err
	}
	code, err := d.exitCode(ctx, made.ID)
	if err == nil && code != 0 {
		err = errors.New(strings.TrimPrefix(strings.TrimSpace(out.String()), "Error: "))
	}
	return out.String(), err
}

var errNotPrepared = errors.New("the sandbox is not prepared for this version of docker-ralph")
