package projectimage

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
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

func TestProjectTag(t *testing.T) {
	// printf 'agent-loop-sandbox-claude:v3a8f2b1cFROM x\nUSER agent\n' | sha256sum | cut -c1-8
	p := Project{Root: "/src/elasticsearch", Dockerfile: []byte("FROM x\nUSER agent\n")}
	assert.Equal(t, projectTag("claude", "agent-loop-sandbox-claude:v3a8f2b1c", p), "agent-loop-sandbox-claude-elasticsearch:vdd5d670e")
	same := projectTag("claude", "agent-loop-sandbox-claude:v3a8f2b1c", Project{Root: "/other/elasticsearch", Dockerfile: p.Dockerfile})
	assert.Equal(t, same, projectTag("claude", "agent-loop-sandbox-claude:v3a8f2b1c", p))

	for name, other := range map[string]string{
		"base":    projectTag("claude", "agent-loop-sandbox-claude:v3a8f2b1d", p),
		"content": projectTag("claude", "agent-loop-sandbox-claude:v3a8f2b1c", Project{Root: p.Root, Dockerfile: []byte("FROM x\n")}),
		"context": projectTag("claude", "agent-loop-sandbox-claude:v3a8f2b1c", Project{Root: p.Root, Dockerfile: p.Dockerfile, files: []*contextPart{{path: "a"}}}),
		"agent":   projectTag("codex", "agent-loop-sandbox-claude:v3a8f2b1c", p),
		"project": projectTag("claude", "agent-loop-sandbox-claude:v3a8f2b1c", Project{Root: "/src/kibana", Dockerfile: p.Dockerfile}),
	} {
		assert.Assert(t, other != same, name)
	}
}

func TestProjectName(t *testing.T) {
	for _, tc := range []struct{ root, want string }{
		{"/src/shop", "shop"},
		{"/src/my-shop_2.0", "my-shop_2.0"},
		{"/src/a--b__c", "a--b__c"},
		{"/src/MyShop", "myshop-"},
		{"/src/myshop", "myshop"},
		{"/src/my shop", "my-shop-"},
		{"/src/my:shop", "my-shop-"},
		{"/src/-shop-", "shop-"},
		{`C:\Users\Me\Shop`, "c-users-me-shop-"},
		{"/src/.shop", "shop-"},
		{"/src/größe", "gr-e-"},
		{"/src/日本", "project-"},
		{"/src/a___b", "a-b-"},
		{"/src/a..b", "a-b-"},
		{"/", "project-"},
		{"/src/" + strings.Repeat("long", 60), strings.Repeat("long", 25) + "-"},
	} {
		t.Run(tc.root, func(t *testing.T) {
			got := projectName(tc.root)
			if strings.HasSuffix(tc.want, "-") {
				assert.Assert(t, cmp.Regexp("^"+tc.want+"[0-9a-f]{8}$", got))
			} else {
				assert.Equal(t, got, tc.want)
			}
			assert.Equal(t, projectName(tc.root), got)
		})
	}
	assert.Assert(t, projectName("/a/My Shop") != projectName("/a/my shop"))
}

func FuzzProjectName(f *testing.F) {
	for _, seed := range []string{"shop", "My Shop", "-", "日本", "a..b", strings.Repeat("x", 300), "\x00\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, folder string) {
		tag := projectTag("claude", "base:v1", Project{Root: folder})
		named, err := reference.ParseNormalizedNamed(tag)
		assert.NilError(t, err, "%q", folder)
		assert.Equal(t, reference.FamiliarString(named), tag)
	})
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
			assert.ErrorContains(t, err, "invalid base image")
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
