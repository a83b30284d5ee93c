// Package guestbin carries the programs that run on an engine: ralph, which goes
// into sandboxes, and ralph-egress, which stands beside them. Each is a static
// Linux binary for each architecture, compressed and embedded by the build.
package guestbin

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/klauspost/compress/zstd"
)

// files holds <program>-linux-<arch>.zst and <program>-linux-<arch>.sha256
// once the Makefile has put them there. The file README keeps the pattern valid in
// a fresh clone, so that go build and go vet work without it.
//
//go:embed files
var files embed.FS

// ErrNotBuilt is returned when this docker-ralph was built without a program
// that it shall carry.
var ErrNotBuilt = errors.New("this docker-ralph was built without the programs for sandboxes: build it with \"make build\"")

// EgressProgram is the file name of the program beside sandboxes.
const EgressProgram = "ralph-egress"

// Payload is a program for one architecture.
type Payload struct {
	// Hash is the hex SHA-256 of the uncompressed program.
	Hash string
	name string
	arch string
}

// For returns ralph for an architecture, in Go's or the kernel's spelling
// ("amd64", "x86_64", "arm64", "aarch64").
func For(arch string) (Payload, error) { return find(wire.Program, arch) }

// Egress returns ralph-egress for an architecture.
func Egress(arch string) (Payload, error) { return find(EgressProgram, arch) }

func find(name, arch string) (Payload, error) {
	goarch, ok := map[string]string{"amd64": "amd64", "x86_64": "amd64", "arm64": "arm64", "aarch64": "arm64"}[arch]
	if !ok {
		return Payload{}, fmt.Errorf("there is no %s for engines on %q: amd64 and arm64 are supported", name, arch)
	}
	sum, err := files.ReadFile("files/" + name + "-linux-" + goarch + ".sha256")
	if err != nil {
		return Payload{}, ErrNotBuilt
	}
	hash := strings.TrimSpace(string(sum))
	if len(hash) != 64 {
		return Payload{}, fmt.Errorf("the embedded hash of %s for %s is not a SHA-256", name, goarch)
	}
	return Payload{Hash: hash, name: name, arch: goarch}, nil
}

// Arch returns the payload's architecture in Go's spelling.
func (p Payload) Arch() string { return p.arch }

// Binary unpacks the program.
func (p Payload) Binary() ([]byte, error) {
	packed, err := files.ReadFile("files/" + p.name + "-linux-" + p.arch + ".zst")
	if err != nil {
		return nil, ErrNotBuilt
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", p.name, err)
	}
	defer d.Close()
	b, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", p.name, err)
	}
	return b, nil
}

// Short returns the first 12 digits of the hash, enough to name a version.
func (p Payload) Short() string { return wire.Dir(p.Hash) }

// Path returns where ralph is in a container sandbox.
func (p Payload) Path() string { return path.Join(wire.MountPoint, p.Short(), wire.Program) }
