package projectimage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/distribution/reference"
)

// agentTag returns agent-loop-sandbox-{agent}:v{hash8} for an agent's image.
func agentTag(agent, base string, dockerfile []byte) string {
	return "agent-loop-sandbox-" + agent + ":v" + contentHash(base, dockerfile)
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
