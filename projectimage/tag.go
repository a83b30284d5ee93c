package projectimage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// agentTag returns agent-loop-sandbox-{agent}:v{hash8} for an agent's image.
func agentTag(agent, base string, dockerfile []byte) string {
	return tagPrefix + agent + ":v" + contentHash(base, dockerfile)
}

// projectTag returns agent-loop-sandbox-{agent}-{project}:v{hash8} for a
// project's layer on the image baseTag. The hash is over the base's tag, the
// Dockerfile, and the digest of the files beside it if there are any. It
// needs no separators: the base's tag ends in a hash of its own.
func projectTag(agent, baseTag string, p Project) string {
	sum := sha256.Sum256([]byte(baseTag + string(p.Dockerfile) + p.contextDigest()))
	return tagPrefix + agent + "-" + projectName(p.Root) + ":v" + hex.EncodeToString(sum[:])[:8]
}

// projectNameMax bounds the part of an image's name that a folder's name gives,
// in bytes: registries take 255 for the whole of it.
const projectNameMax = 100

// repositoryName matches what may follow a dash in an image's name.
var repositoryName = lazyregexp.New(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)

// projectName returns the name of a main work tree's folder as a part of an
// image's name. One that is no such part is made one, with a hash that keeps
// folders apart whose names have become the same.
func projectName(root string) string {
	folder := filepath.Base(root)
	if len(folder) <= projectNameMax && repositoryName().MatchString(folder) {
		return folder
	}
	words := strings.FieldsFunc(strings.ToLower(folder), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := strings.Join(words, "-")
	name = strings.TrimRight(name[:min(len(name), projectNameMax)], "-")
	if name == "" {
		name = "project"
	}
	sum := sha256.Sum256([]byte(folder))
	return name + "-" + hex.EncodeToString(sum[:])[:8]
}

// contentHash returns the first 8 hex digits of the SHA-256 over the base
// reference, one NUL byte, and the Dockerfile. A reference never contains NUL,
// so two different pairs never give the same input.
func contentHash(base string, dockerfile []byte) string {
	input := make([]byte, 0, len(base)+1+len(dockerfile))
	input = append(input, base...)
	input = append(input, 0)
	input = append(input, dockerfile...)
	sum := sha256.Sum256(input)
	return hex.EncodeToString(sum[:])[:8]
}

// normalizeBase returns the one familiar spelling of a base image, with its
// tag: "docker.io/library/debian" and "debian:latest" are the same base and
// must give the same tag.
func normalizeBase(base string) (string, error) {
	named, err := reference.ParseNormalizedNamed(base)
	if err != nil {
		return "", &InvalidBaseError{Base: base, Err: err}
	}
	return reference.FamiliarString(reference.TagNameOnly(named)), nil
}

// InvalidBaseError says that a base is not an image reference.
type InvalidBaseError struct {
	Base string
	Err  error
}

func (e *InvalidBaseError) Error() string {
	return fmt.Sprintf("%q is not the name of a base image: %v; give one such as %q", e.Base, e.Err, DefaultBase("shell"))
}

func (e *InvalidBaseError) Unwrap() error { return e.Err }

// InvalidParameter marks the error as the user's.
func (*InvalidBaseError) InvalidParameter() {}
