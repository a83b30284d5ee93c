package guest

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func packed(t *testing.T, files ...string) *bytes.Buffer {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for i := 0; i < len(files); i += 2 {
		assert.NilError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: files[i], Size: int64(len(files[i+1])), Mode: 0o600}))
		_, err := w.Write([]byte(files[i+1]))
		assert.NilError(t, err)
	}
	assert.NilError(t, w.Close())
	return &archive
}

func TestHostConfig(t *testing.T) {
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
	assert.NilError(t, putHostConfig(home, packed(t, ".claude/CLAUDE.md", "one", ".claude/skills/a/SKILL.md", "two")))
	has(".claude/CLAUDE.md", "one")
	has(".claude/skills/a/SKILL.md", "two")

	// What was changed inside is lost, what the host has no more goes, and what is
	// the sandbox's own stays.
	assert.NilError(t, os.WriteFile(filepath.Join(home, ".claude", "CLAUDE.md"), []byte("changed"), 0o600))
	assert.NilError(t, putHostConfig(home, packed(t, ".claude/CLAUDE.md", "three")))
	has(".claude/CLAUDE.md", "three")
	has(".claude/skills/a/SKILL.md", "")
	has(".claude/own.json", "own")

	// Links do not lead out, and are replaced.
	target := filepath.Join(outside, "target")
	assert.NilError(t, os.WriteFile(target, []byte("kept"), 0o600))
	assert.NilError(t, os.Remove(filepath.Join(home, ".claude", "CLAUDE.md")))
	assert.NilError(t, os.Symlink(target, filepath.Join(home, ".claude", "CLAUDE.md")))
	assert.NilError(t, putHostConfig(home, packed(t, ".claude/CLAUDE.md", "four")))
	has(".claude/CLAUDE.md", "four")
	assert.NilError(t, os.Symlink(outside, filepath.Join(home, ".codex")))
	assert.ErrorContains(t, putHostConfig(home, packed(t, ".codex/config.toml", "five")), "putting .codex/config.toml in place")
	content, err := os.ReadFile(target)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "kept")
	entries, err := os.ReadDir(outside)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 1)

	assert.ErrorIs(t, putHostConfig(home, packed(t, "../out", "x")), errUsage)
	assert.NilError(t, putHostConfig(home, packed(t)))
	has(".claude/CLAUDE.md", "")
}

func FuzzHostConfig(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		dir := t.TempDir()
		home := filepath.Join(dir, "home")
		assert.NilError(t, os.Mkdir(home, 0o755))
		_ = putHostConfig(home, bytes.NewReader(archive))
		entries, err := os.ReadDir(dir)
		assert.NilError(t, err)
		assert.Equal(t, len(entries), 1)
	})
}
