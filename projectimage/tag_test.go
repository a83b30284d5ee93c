package projectimage

import (
	"testing"

	"github.com/containerd/errdefs"
	"gotest.tools/v3/assert"
)

func TestContentHash(t *testing.T) {
	// printf 'BASE\0DOCKERFILE' | sha256sum | cut -c1-8
	for _, tc := range []struct {
		name, base, dockerfile, want string
	}{
		{"plain", "debian:bookworm-slim", "FROM x\n", "f723492a"},
		{"another base", "debian:trixie-slim", "FROM x\n", "a469a034"},
		{"another Dockerfile", "debian:bookworm-slim", "FROM y\n", "4dd4ea02"},
		{"empty", "", "", "6e340b9c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, contentHash(tc.base, []byte(tc.dockerfile)), tc.want)
		})
	}
}

func TestContentHashSeparatesItsParts(t *testing.T) {
	assert.Assert(t, contentHash("a", []byte("bc")) != contentHash("ab", []byte("c")))
}

func TestNormalizeBase(t *testing.T) {
	for _, tc := range []struct {
		name, base, want string
	}{
		{"tag", "debian:bookworm-slim", "debian:bookworm-slim"},
		{"no tag", "debian", "debian:latest"},
		{"official in full", "docker.io/library/debian:12", "debian:12"},
		{"user's in full", "docker.io/docker/sandbox-templates:claude-code", "docker/sandbox-templates:claude-code"},
		{"registry with port", "localhost:5000/a/b", "localhost:5000/a/b:latest"},
		{
			"digest",
			"debian@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
			"debian@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := normalizeBase(tc.base)
			assert.NilError(t, err)
			assert.Equal(t, got, tc.want)
		})
	}
}

func TestNormalizeBaseRefuses(t *testing.T) {
	for _, base := range []string{
		"Debian", "a b", "-x", ":tag", "debian:", "debian\nRUN evil",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	} {
		t.Run(base, func(t *testing.T) {
			_, err := normalizeBase(base)
			assert.ErrorContains(t, err, "is not the name of a base image")
			assert.Assert(t, errdefs.IsInvalidArgument(err))
		})
	}
}

func FuzzNormalizeBase(f *testing.F) {
	for _, seed := range []string{"debian", "docker.io/library/debian:12", "a/b@sha256:00", "x:y", "::", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, base string) {
		once, err := normalizeBase(base)
		if err != nil {
			return
		}
		twice, err := normalizeBase(once)
		assert.NilError(t, err)
		assert.Equal(t, twice, once)
	})
}
