// Package guestbin embeds the programs that run on an engine: ralph, which goes
// into sandboxes, and ralph-egress, which runs beside them. Both are static
// binaries for Linux.
package guestbin

import (
	"archive/tar"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire"
)

// files holds linux-<arch>.tar.zst with both programs, and their sums in
// linux-<arch>.sha256, once the Makefile has put them there. The file README keeps
// the pattern valid in a fresh clone, so that go build and go vet work without them.
//
//go:embed files
var files embed.FS

// ErrNotBuilt is returned when docker-ralph was built without its guest programs.
var ErrNotBuilt = hint.Wrap(errors.New("docker-ralph was built without its guest programs"), "build it with \"make build\"")

// EgressProgram is the file name of the proxy's program.
const EgressProgram = "ralph-egress"

// Payload is a program for one architecture.
type Payload struct {
	// Hash is the hex SHA-256 of the uncompressed program.
	Hash string
	name string
	arch string
	dir  string // of ralph in a container sandbox, below that of the version
}

// For returns ralph for an architecture, in Go's or the kernel's spelling
// ("amd64", "x86_64", "arm64", "aarch64").
func For(arch string) (Payload, error) { return find(wire.Program, arch) }

// Egress returns ralph-egress for an architecture.
func Egress(arch string) (Payload, error) { return find(EgressProgram, arch) }

func find(name, arch string) (Payload, error) {
	goarch, ok := map[string]string{"amd64": "amd64", "x86_64": "amd64", "arm64": "arm64", "aarch64": "arm64"}[arch]
	if !ok {
		return Payload{}, fmt.Errorf("unsupported engine architecture %q: %s is built for amd64 and arm64", arch, name)
	}
	sums, err := files.ReadFile("files/linux-" + goarch + ".sha256")
	if err != nil {
		return Payload{}, ErrNotBuilt
	}
	for line := range strings.Lines(string(sums)) {
		if hash, file, _ := strings.Cut(strings.TrimSpace(line), "  "); file == name && len(hash) == 64 {
			return Payload{Hash: hash, name: name, arch: goarch}, nil
		}
	}
	return Payload{}, fmt.Errorf("no SHA-256 of %s for %s is embedded", name, goarch)
}

// Arch returns the payload's architecture in Go's spelling.
func (p Payload) Arch() string { return p.arch }

// Binary unpacks the program.
func (p Payload) Binary() ([]byte, error) {
	program, err := p.unpack()
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", p.name, err)
	}
	return program, nil
}

func (p Payload) unpack() ([]byte, error) {
	packed, err := files.ReadFile("files/linux-" + p.arch + ".tar.zst")
	if err != nil {
		return nil, ErrNotBuilt
	}
	decoder, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	archive := tar.NewReader(decoder)
	for {
		header, err := archive.Next()
		if err != nil {
			return nil, err
		}
		if header.Name == p.name {
			return io.ReadAll(archive)
		}
	}
}

// Short returns the first 12 digits of the hash, enough to name a version.
func (p Payload) Short() string { return wire.Dir(p.Hash) }

// Path returns where ralph is in a container sandbox.
func (p Payload) Path() string { return path.Join(wire.MountPoint, p.Short(), p.dir, wire.Program) }

// Readable returns the copy of ralph that everybody can read.
func (p Payload) Readable() Payload {
	p.dir = wire.ReadableDir
	return p
}
