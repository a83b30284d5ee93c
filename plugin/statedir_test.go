package plugin

import (
	"path/filepath"
	"testing"

	"github.com/docker/cli/cli/config/configfile"
	"gotest.tools/v3/assert"
)

// What is below it is mounted, and an engine mounts no relative path.
func TestStateDirIsAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	assert.Equal(t, stateDir(configfile.New(filepath.Join("relative", "config.json"))), filepath.Join(dir, "relative", "ralph"))
	assert.Equal(t, stateDir(configfile.New(filepath.Join(dir, "config.json"))), filepath.Join(dir, "ralph"))
}
