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
	"strings"

	"github.com/moby/moby/client"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/payload"
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
	uid, gid, ok := strings.Cut(sb.User, ":")
	if !ok {
		return fmt.Errorf("the sandbox %s does not say which user it is for: remove it with \"docker rm -f %s\"", sb.Name, sb.Name)
	}
	args := []string{p.Path(), "_setup", "--uid", uid, "--gid", gid, "--home", Home}
	if spec.Probe != "" {
		digest, err := digestFile(spec.Probe)
		if err != nil {
			return err
		}
		args = append(args, "--probe", spec.Probe, "--digest", digest)
	}
	// Root with capabilities, but only for this static program of ours and
	// before any agent: the container itself never has them.
	out, code, err := d.run(ctx, sb, client.ExecCreateOptions{User: "0:0", Privileged: true, Cmd: args})
	if err != nil {
		return fmt.Errorf("preparing the sandbox %s: %w", sb.Name, err)
	}
	if code != 0 {
		return fmt.Errorf("preparing the sandbox %s: %s", sb.Name, strings.TrimPrefix(out, "Error: "))
	}
	return d.writeMarker(sb, p)
}

func digestFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the repository: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// run executes a command of ours in the sandbox and returns what it wrote.
func (d *Driver) run(ctx context.Context, sb lifecycle.Sandbox, opts client.ExecCreateOptions) (output string, code int, err error) {
	opts.AttachStdout, opts.AttachStderr = true, true
	made, err := d.API.ExecCreate(ctx, sb.ID, opts)
	if err != nil {
		return "", 0, err
	}
	conn, err := d.API.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return "", 0, err
	}
	defer conn.Close()
	var out bytes.Buffer
	if err := demultiplex(&out, &out, conn.Reader); err != nil {
		return "", 0, err
	}
	code, err = d.exitCode(ctx, made.ID)
	return strings.TrimSpace(out.String()), code, err
}

var errNotPrepared = errors.New("the sandbox is not prepared for this version of docker-ralph")
