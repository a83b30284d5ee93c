package agentconfig

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/skip"
)

func collected(t *testing.T, files map[string]string) *Files {
	t.Helper()
	found, err := Collect("claude", home(t, files), none)
	assert.NilError(t, err)
	return found
}

func TestPut(t *testing.T) {
	state := t.TempDir()
	staging := StagingOf(state, "container", "sb")
	assert.NilError(t, MakeShown(staging.Shown()))
	assert.NilError(t, MakeShown(staging.Shown())) // again is fine

	first, err := staging.Put(collected(t, map[string]string{".claude/CLAUDE.md": "one", ".claude/skills/a/SKILL.md": "two"}))
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(staging.Shown(), first, ".claude", "CLAUDE.md"), []byte("changed"), 0o600))
	second, err := staging.Put(collected(t, map[string]string{".claude/CLAUDE.md": "one"}))
	assert.NilError(t, err)
	entries, err := os.ReadDir(staging.Shown())
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 1, "what was there before is gone")
	assert.Equal(t, entries[0].Name(), second)
	content, err := os.ReadFile(filepath.Join(staging.Shown(), second, ".claude", "CLAUDE.md"))
	assert.NilError(t, err)
	assert.Equal(t, string(content), "one")
	assert.Equal(t, len(staged(t, &Files{})), 0)
}

// Sandboxes that can write to the directory cannot use it to write elsewhere.
func TestPutDoesNotFollowLinks(t *testing.T) {
	staging, outside := StagingOf(t.TempDir(), "sbx", "sb"), t.TempDir()
	target := filepath.Join(outside, "kept")
	assert.NilError(t, os.WriteFile(target, nil, 0o600))
	assert.NilError(t, MakeShown(staging.Shown()))
	for _, name := range []string{"a", "b"} {
		assert.NilError(t, os.Mkdir(filepath.Join(staging.Shown(), name), 0o755))
		assert.NilError(t, os.Symlink(outside, filepath.Join(staging.Shown(), name, "out")))
	}
	assert.NilError(t, os.Symlink(outside, filepath.Join(staging.Shown(), ".claude")))
	_, err := staging.Put(collected(t, map[string]string{".claude/CLAUDE.md": "one"}))
	assert.NilError(t, err)
	entries, err := os.ReadDir(outside)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 1)
	_, err = os.Stat(target)
	assert.NilError(t, err)
}

// Every user in a sandbox can read the files, and run those that the user can; other users
// of the host have no access.
func TestPermissionsOfStaging(t *testing.T) {
	skip.If(t, runtime.GOOS == "windows", "there are no such permissions")
	staging := StagingOf(t.TempDir(), "container", "sb")
	assert.NilError(t, MakeShown(staging.Shown()))
	dir := home(t, map[string]string{".claude/skills/a/run.sh": "#!/bin/sh\n", ".claude/CLAUDE.md": "x"})
	assert.NilError(t, os.Chmod(filepath.Join(dir, ".claude", "skills", "a", "run.sh"), 0o700))
	assert.NilError(t, os.Chmod(filepath.Join(dir, ".claude", "CLAUDE.md"), 0o600))
	files, err := Collect("claude", dir, none)
	assert.NilError(t, err)
	name, err := staging.Put(files)
	assert.NilError(t, err)
	for of, want := range map[string]fs.FileMode{
		"..": 0o700, ".": 0o755, name: 0o755,
		name + "/.claude/skills/a": 0o755, name + "/.claude/skills/a/run.sh": 0o755, name + "/.claude/CLAUDE.md": 0o644,
	} {
		info, err := os.Stat(filepath.Join(staging.Shown(), of))
		assert.NilError(t, err)
		assert.Equal(t, info.Mode().Perm(), want, of)
	}
}

func TestLockNoteAndRemove(t *testing.T) {
	state := t.TempDir()
	staging := StagingOf(state, "container", "sb")
	note, err := staging.Note()
	assert.NilError(t, err)
	assert.Equal(t, note, "")
	unlock, err := staging.Lock(t.Context())
	assert.NilError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = staging.Lock(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	unlock()
	unlock, err = staging.Lock(t.Context())
	assert.NilError(t, err)
	unlock()

	assert.NilError(t, staging.WriteNote("noted"))
	note, err = StagingOf(state, "container", "sb").Note()
	assert.NilError(t, err)
	assert.Equal(t, note, "noted")
	note, err = StagingOf(state, "sbx", "sb").Note()
	assert.NilError(t, err)
	assert.Equal(t, note, "", "each driver has a sandbox of that name")
	assert.NilError(t, staging.Remove())
	assert.NilError(t, staging.Remove()) // again is fine
	_, err = os.Stat(staging.Shown())
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestStagingAt(t *testing.T) {
	shown := StagingOf("/state", "container", "sb").Shown()
	at, err := StagingAt(shown, "container", "sb")
	assert.NilError(t, err)
	assert.Equal(t, at, StagingOf("/state", "container", "sb"))
	for _, dir := range []string{
		"", "/", "/home/una", "shown", "/state/scopes/sb/hostconfig/sbx/shown", "/state/scopes/other/hostconfig/container/shown",
		"/state/scopes/sb/hostconfig/container", "/state/scopes/sb/hostconfig/../hostconfig/container/shown", "scopes/sb/hostconfig/container/shown",
	} {
		_, err := StagingAt(dir, "container", "sb")
		assert.ErrorContains(t, err, "unexpected directory", dir)
		assert.NilError(t, Recreate(dir, "container", "sb"))
	}

	gone := StagingOf(t.TempDir(), "sbx", "sb").Shown()
	assert.NilError(t, Recreate(gone, "sbx", "sb"))
	_, err = os.Stat(gone)
	assert.NilError(t, err)
}
