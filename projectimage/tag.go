package projectimage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// agentTag returns agent-loop-sandbox-{agent}:v{hash8}.
func agentTag(agent, base string, dockerfile []byte) string {
	return tagPrefix + agent + ":v" + contentHash(base, dockerfile)
}

// projectTag returns agent-loop-sandbox-{agent}-{project}:v{hash8}. The hash covers the tag of
// the agent image, the Dockerfile, and the digest of its context. It needs no separators,
// because the tag ends in a hash.
func projectTag(agent, baseTag string, p Project) string {
	return tagPrefix + agent + "-" + projectName(p.Root) + ":v" + shortHash(baseTag+string(p.Dockerfile)+p.contextDigest())
}

// maxProjectName bounds the project's part of an image name, in bytes: registries accept 255
// for the whole.
const maxProjectName = 100

// repositoryName matches what may follow a dash in an image's name.
var repositoryName = lazyregexp.New(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)

// projectName returns the name of a main worktree as a part of an image name. A name that
// needs changes gets a hash to keep it unique.
func projectName(root string) string {
	folder := filepath.Base(root)
	if len(folder) <= maxProjectName && repositoryName().MatchString(folder) {
		return folder
	}
	words := strings.FieldsFunc(strings.ToLower(folder), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := strings.Join(words, "-")
	name = strings.TrimRight(name[:min(len(name), maxProjectName)], "-")
	if name == "" {
		name = "project"
	}
	return name + "-" + shortHash(folder)
}

// contentHash returns the first 8 hex digits of the SHA-256 over the base
// reference, one NUL byte, and the Dockerfile. A reference never contains NUL,
// so different pairs have different input.
func contentHash(base string, dockerfile []byte) string { return agentDigest(base, dockerfile)[:8] }

// shortHash returns the first 8 hex digits of a SHA-256.
func shortHash(text string) string { return fullHash(text)[:8] }

// fullHash returns a SHA-256 in hex digits.
func fullHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// agentDigest returns the digest that the tag of an agent image abbreviates.
func agentDigest(base string, dockerfile []byte) string {
	return fullHash(base + "\x00" + string(dockerfile))
}

// projectDigest returns the digest of a project's layer on the agent image with a digest.
func projectDigest(base string, p Project) string {
	return fullHash(base + fullHash(string(p.Dockerfile)) + p.contextDigest())
}

// normalizeBase returns the familiar name of a base image with its tag:
// "docker.io/library/debian" and "debian:latest" are the same base.
func normalizeBase(base string) (string, error) {
	named, err := reference.ParseNormalizedNamed(base)
	if err != nil {
		return "", hint.Wrap(fmt.Errorf("invalid base image %q: %w", base, err), "use one such as %q", DefaultBase("shell"))
	}
	return reference.FamiliarString(reference.TagNameOnly(named)), nil
}
