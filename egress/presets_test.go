package egress

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestPresetsAreSound(t *testing.T) {
	p, err := readPresets(presetsFile)
	assert.NilError(t, err)
	for _, agent := range []string{"claude", "codex", "gemini", "opencode", "crush", "copilot", "shell"} {
		_, ok := p.Agent[agent]
		assert.Assert(t, ok, "no hosts for %s", agent)
		_, err := p.agentEntries(agent)
		assert.NilError(t, err)
	}
	for name, found := range p.Preset {
		_, err := p.entries(name, "")
		assert.NilError(t, err)
		assert.Assert(t, len(found.Hosts) > 0 != (len(found.Include) > 0), "preset %s has hosts, or includes others", name)
		for _, part := range found.Include {
			assert.Assert(t, len(p.Preset[part].Hosts) > 0, "%s includes %s, which has no hosts", name, part)
		}
		for _, host := range found.Hosts {
			assert.Assert(t, !strings.Contains(host, "*"), "%s is wide: say why in presets.toml, and here", host)
		}
	}
	names, err := Presets()
	assert.NilError(t, err)
	assert.Assert(t, slices.IsSorted(names))
	for _, name := range []string{"agent", "git", "packages", "npm"} {
		assert.Assert(t, slices.Contains(names, name))
	}
}

// Default presets let the usual installs and builds of common ecosystems run.
func TestDefaultPresetsServeEcosystems(t *testing.T) {
	p, err := New(Allowlist, "claude", []string{"agent", "git", "packages"}, nil)
	assert.NilError(t, err)
	for ecosystem, hosts := range map[string][]string{
		"web pages":     {"fonts.googleapis.com", "fonts.gstatic.com", "cdn.jsdelivr.net", "unpkg.com"},
		"browser tests": {"cdn.playwright.dev", "download.cypress.io", "cdn.cypress.io"},
		"npm":           {"registry.npmjs.org", "binaries.prisma.sh"},
		"bun, deno":     {"bun.sh", "deno.land", "jsr.io"},
		"Android":       {"dl.google.com", "maven.google.com"},
		"Python":        {"download.pytorch.org", "huggingface.co", "cdn-lfs.hf.co"},
		"Elixir":        {"repo.hex.pm", "builds.hex.pm"},
		"iOS":           {"cdn.cocoapods.org"},
		"Dart":          {"pub.dev"},
		"Terraform":     {"registry.terraform.io", "releases.hashicorp.com"},
	} {
		for _, host := range hosts {
			assert.Check(t, p.Decide(host, 443).Allowed, "%s: %s", ecosystem, host)
		}
	}
	for _, host := range []string{"google.com", "www.googleapis.com", "gist.github.com", "example.com"} {
		assert.Check(t, !p.Decide(host, 443).Allowed, host)
	}
}

func TestNew(t *testing.T) {
	own := Entry{Rule: Rule{Host: "gateway.example"}, Origin: "ANTHROPIC_BASE_URL", Model: true}
	hosts := func(p Policy) (list []string) {
		for _, e := range p.Rules {
			list = append(list, e.Rule.String())
		}
		return list
	}
	t.Run("everything usual", func(t *testing.T) {
		p, err := New(Allowlist, "claude", []string{"agent", "git", "packages"}, nil)
		assert.NilError(t, err)
		for _, host := range []string{"api.anthropic.com", "github.com", "registry.npmjs.org", "deb.debian.org", "proxy.golang.org"} {
			assert.Assert(t, p.Decide(host, 443).Allowed, host)
		}
		assert.Equal(t, p.Decide("github.com", 443).Why, "preset git")
		for _, host := range []string{"example.com", "gist.githubusercontent.com", "uploads.github.com", "api.openai.com"} {
			assert.Assert(t, !p.Decide(host, 443).Allowed, host)
		}
	})
	t.Run("an empty list is nothing", func(t *testing.T) {
		p, err := New(Allowlist, "claude", nil, nil)
		assert.NilError(t, err)
		assert.Equal(t, len(p.Rules), 0)
	})
	t.Run("deny is the model", func(t *testing.T) {
		p, err := New(Deny, "claude", []string{"git"}, []Entry{own, {Rule: Rule{Host: "example.com"}, Origin: "ralph.toml"}})
		assert.NilError(t, err)
		assert.DeepEqual(t, hosts(p), []string{"api.anthropic.com", "gateway.example"})
	})
	t.Run("deny for shell is nothing", func(t *testing.T) {
		p, err := New(Deny, "shell", []string{"git"}, nil)
		assert.NilError(t, err)
		assert.Equal(t, len(p.Rules), 0)
	})
	t.Run("an agent of one's own has no hosts", func(t *testing.T) {
		p, err := New(Allowlist, "mine", []string{"agent"}, nil)
		assert.NilError(t, err)
		assert.Equal(t, len(p.Rules), 0)
	})
	t.Run("unknown preset", func(t *testing.T) {
		_, err := New(Allowlist, "claude", []string{"gti"}, nil)
		assert.ErrorContains(t, err, `unknown network preset "gti": use agent, `)
	})
	t.Run("unknown mode", func(t *testing.T) {
		_, err := New("open", "claude", nil, nil)
		assert.ErrorContains(t, err, `invalid network policy "open"`)
	})
	t.Run("nothing twice", func(t *testing.T) {
		p, err := New(Allowlist, "copilot", []string{"agent", "git", "github"}, nil)
		assert.NilError(t, err)
		all := hosts(p)
		slices.Sort(all)
		assert.Equal(t, len(slices.Compact(slices.Clone(all))), len(all))
	})
}
