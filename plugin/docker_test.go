package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/cli/cli/config/configfile"
	"gotest.tools/v3/assert"
)

type configured configfile.ConfigFile

func (c *configured) ConfigFile() *configfile.ConfigFile { return (*configfile.ConfigFile)(c) }

func TestHasPlugin(t *testing.T) {
	was := os.Args[0]
	t.Cleanup(func() { os.Args[0] = was })
	extra, own := t.TempDir(), t.TempDir()
	os.Args[0] = filepath.Join(own, "docker-ralph")
	cli := (*configured)(configfile.New(""))
	cli.CLIPluginsExtraDirs = []string{extra}
	for _, dir := range []string{extra, own} {
		const name = "certainlynone"
		path := filepath.Join(dir, "docker-"+name)
		assert.Assert(t, !hasPlugin(cli, name))
		// One that does not work is Docker's business.
		assert.NilError(t, os.WriteFile(path, []byte("#!/bin/sh\nexit 1\n"), 0o755))
		assert.Assert(t, hasPlugin(cli, name))
		assert.NilError(t, os.Remove(path))
	}
}
