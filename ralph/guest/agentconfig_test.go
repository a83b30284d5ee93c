package guest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func settingsDir(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NilError(t, os.WriteFile(path, []byte(files[i+1]), 0o644))
	}
	return dir
}

func TestCopyAgentConfig(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	has := func(name, want string) {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(home, name))
		if want == "" {
			assert.Assert(t, os.IsNotExist(err), name)
			return
		}
		assert.NilError(t, err)
		assert.Equal(t, string(content), want)
	}
	assert.NilError(t, os.MkdirAll(filepath.Join(home, ".claude", "CLAUDE.md"), 0o755)) // a folder in the way
	assert.NilError(t, os.WriteFile(filepath.Join(home, ".claude", "own.json"), []byte("own"), 0o600))
	assert.NilError(t, copyAgentConfig(home, settingsDir(t, ".claude/CLAUDE.md", "one", ".claude/skills/a/SKILL.md", "two")))
	has(".claude/CLAUDE.md", "one")
	has(".claude/skills/a/SKILL.md", "two")
	info, err := os.Stat(filepath.Join(home, ".claude", "CLAUDE.md"))
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), fs.FileMode(0o600), "readable by the owner only")

	// What was changed inside is lost, what the host has no more goes, and what is
	// the sandbox's own stays.
	assert.NilError(t, os.WriteFile(filepath.Join(home, ".claude", "CLAUDE.md"), []byte("changed"), 0o600))
	assert.NilError(t, copyAgentConfig(home, settingsDir(t, ".claude/CLAUDE.md", "three")))
	has(".claude/CLAUDE.md", "three")
	has(".claude/skills/a/SKILL.md", "")
	has(".claude/own.json", "own")

	// Links do not lead out, and are replaced.
	target := filepath.Join(outside, "target")
	assert.NilError(t, os.WriteFile(target, []byte("kept"), 0o600))
	assert.NilError(t, os.Remove(filepath.Join(home, ".claude", "CLAUDE.md")))
	assert.NilError(t, os.Symlink(target, filepath.Join(home, ".claude", "CLAUDE.md")))
	assert.NilError(t, copyAgentConfig(home, settingsDir(t, ".claude/CLAUDE.md", "four")))
	has(".claude/CLAUDE.md", "four")
	assert.NilError(t, os.Symlink(outside, filepath.Join(home, ".codex")))
	assert.ErrorContains(t, copyAgentConfig(home, settingsDir(t, ".codex/config.toml", "five")), "replacing .codex/config.toml")
	content, err := os.ReadFile(target)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "kept")
	entries, err := os.ReadDir(outside)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 1)

	assert.ErrorContains(t, copyAgentConfig(home, filepath.Join(outside, "missing")), "opening the agent settings")
	assert.ErrorIs(t, runAgentConfig(nil), errUsage)
	assert.NilError(t, copyAgentConfig(home, settingsDir(t)))
	has(".claude/CLAUDE.md", "")
}

// An agent can change the list of what was brought earlier: nothing outside of the
// home directory goes by it.
func FuzzHostConfigList(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(`["../kept", "/kept", ".claude/../../kept", "out/kept", "."]`))
	f.Fuzz(func(t *testing.T, list []byte) {
		dir := t.TempDir()
		home := filepath.Join(dir, "home")
		assert.NilError(t, os.Mkdir(home, 0o755))
		assert.NilError(t, os.WriteFile(filepath.Join(dir, "kept"), nil, 0o600))
		assert.NilError(t, os.Symlink(dir, filepath.Join(home, "out")))
		assert.NilError(t, os.WriteFile(filepath.Join(home, agentConfigList), list, 0o600))
		assert.NilError(t, copyAgentConfig(home, settingsDir(t, ".claude/CLAUDE.md", "x")))
		_, err := os.Stat(filepath.Join(dir, "kept"))
		assert.NilError(t, err)
	})
}
