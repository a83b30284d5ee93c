// Package payload carries the ralph program that goes into sandboxes: a static
// Linux binary for each architecture, compressed and embedded by the build.
package payload

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/docker-ralph/docker-ralph/ralph/guest"
)

// files holds ralph-linux-<arch>.zst and ralph-linux-<arch>.sha256 once
// the Makefile has put them there. The file README keeps the pattern valid in
// a fresh clone, so that go build and go vet work without it.
//
//go:embed files
var files embed.FS

// ErrNotBuilt is returned when this docker-ralph was built without ralph.
var ErrNotBuilt = errors.New("this docker-ralph was built without the ralph program for sandboxes: build it with \"make build\"")

// Payload is ralph for one architecture.
type Payload struct {
	// Hash is the hex SHA-256 of the uncompressed program.
	Hash string
	arch string
}

// For returns the payload for an architecture, in Go's or the kernel's
// spelling ("amd64", "x86_64", "arm64", "aarch64").
func For(arch string) (Payload, error) {
	goarch, ok := map[string]string{"amd64": "amd64", "x86_64": "amd64", "arm64": "arm64", "aarch64": "arm64"}[arch]
	if !ok {
		return Payload{}, fmt.Errorf("there is no ralph for engines on %q: amd64 and arm64 are supported", arch)
	}
	sum, err := files.ReadFile("files/ralph-linux-" + goarch + ".sha256")
	if err != nil {
		return Payload{}, ErrNotBuilt
	}
	hash := strings.TrimSpace(string(sum))
	if len(hash) != 64 {
		return Payload{}, fmt.Errorf("the embedded hash of ralph for %s is not a SHA-256", goarch)
	}
	return Payload{Hash: hash, arch: goarch}, nil
}

// Arch returns the payload's architecture in Go's spelling.
func (p Payload) Arch() string { return p.arch }

// Binary unpacks the program.
func (p Payload) Binary() ([]byte, error) {
	packed, err := files.ReadFile("files/ralph-linux-" + p.arch + ".zst")
	if err != nil {
		return nil, ErrNotBuilt
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, fmt.Errorf("unpacking ralph: %w", err)
	}
	defer d.Close()
	b, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpacking ralph: %w", err)
	}
	return b, nil
}

// Short returns the first 12 digits of the hash, enough to name a version.
func (p Payload) Short() string { return guest.Dir(p.Hash) }

// Path returns where the program is in a container sandbox.
func (p Payload) Path() string { return path.Join(guest.MountPoint, p.Short(), guest.Program) }
