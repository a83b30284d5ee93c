//go:build !windows

package credential

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

func TestNamedPipeForSettingsDoesNotBlock(t *testing.T) {
	root := t.TempDir()
	assert.NilError(t, os.Mkdir(filepath.Join(root, ".claude"), 0o700))
	assert.NilError(t, syscall.Mkfifo(filepath.Join(root, ".claude", "settings.local.json"), 0o600))
	write(t, root, "settings.json", `{"env":{"CLAUDE_CODE_USE_BEDROCK":"1"}}`)
	active, err := Bedrock{LookupEnv: lookup(), Root: root}.Active()
	assert.NilError(t, err)
	assert.Assert(t, active, "the other file is read")
}
