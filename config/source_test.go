//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/skip"
)

func TestUnusualFiles(t *testing.T) {
	large := "# " + strings.Repeat("x", maxFile)
	for _, tc := range []struct {
		name          string
		make          func(t *testing.T, path string)
		inRepository  string // error, or "" for none
		inUsersFolder string
	}{
		{
			"folder", func(t *testing.T, path string) { assert.NilError(t, os.Mkdir(path, 0o755)) },
			"not a regular file", "not a regular file",
		},
		{
			"too large", func(t *testing.T, path string) { assert.NilError(t, os.WriteFile(path, []byte(large), 0o644)) },
			"larger than 1024 KiB", "larger than 1024 KiB",
		},
		{"link", func(t *testing.T, path string) {
			target := filepath.Join(t.TempDir(), "target")
			assert.NilError(t, os.WriteFile(target, []byte("[agent]\nname = \"linked\"\n"), 0o644))
			assert.NilError(t, os.Symlink(target, path))
		}, "symbolic links are not allowed", ""},
		{
			"dangling link", func(t *testing.T, path string) { assert.NilError(t, os.Symlink("/nowhere", path)) },
			"symbolic links are not allowed", "no such file",
		},
		{
			"pipe", func(t *testing.T, path string) { assert.NilError(t, syscall.Mkfifo(path, 0o644)) },
			"not a regular file", "not a regular file",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, user := t.TempDir(), t.TempDir()
			tc.make(t, filepath.Join(root, "ralph.toml"))
			tc.make(t, filepath.Join(user, "config.toml"))
			_, err := Load(Sources{Root: root})
			assert.ErrorContains(t, err, filepath.Join(root, "ralph.toml"))
			assert.ErrorContains(t, err, tc.inRepository)
			e, err := Load(Sources{UserDir: user})
			if tc.inUsersFolder == "" {
				assert.NilError(t, err)
				assert.Equal(t, e.Agent.Name, "linked")
				return
			}
			assert.ErrorContains(t, err, tc.inUsersFolder)
		})
	}
}

func TestUnreadableFile(t *testing.T) {
	skip.If(t, os.Getuid() == 0, "root can read everything")
	root := write(t, "ralph.toml", "")
	assert.NilError(t, os.Chmod(filepath.Join(root, "ralph.toml"), 0))
	_, err := Load(Sources{Root: root})
	assert.ErrorIs(t, err, os.ErrPermission)
}
