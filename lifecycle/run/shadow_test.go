package run

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

func TestNodeModulesAreShadowed(t *testing.T) {
	pkg := fs.WithFile("package.json", "{}")
	dir := fs.NewDir(t, "shadows", pkg,
		fs.WithDir("node_modules", fs.WithDir("dependency", pkg)),
		fs.WithDir(".hidden", pkg),
		fs.WithDir("a", fs.WithDir("b", pkg, fs.WithDir("c", pkg))),
		fs.WithDir("elsewhere", fs.WithSymlink("package.json", "../package.json")),
	)
	user := lifecycle.User{UID: os.Getuid(), GID: os.Getgid()}
	for mode, want := range map[string][]string{
		config.ShadowOn:   {dir.Join("node_modules"), dir.Join("a", "b", "node_modules"), dir.Join("a", "b", "c", "node_modules")},
		config.ShadowOff:  nil,
		config.ShadowAuto: nil,
	} {
		if mode == config.ShadowAuto && runtime.GOOS != "linux" {
			continue
		}
		spec := lifecycle.Spec{Root: dir.Path(), User: user}
		cfg := config.Effective{}
		cfg.Sandbox.ShadowModules = mode
		assert.NilError(t, shadowModules(&spec, cfg))
		assert.Check(t, cmp.DeepEqual(spec.Shadows, want), mode)
		for _, made := range spec.Shadows {
			info, err := os.Stat(made)
			assert.NilError(t, err)
			assert.Check(t, info.IsDir())
		}
	}

	// A link in its place is not followed.
	linked := fs.NewDir(t, "linked", pkg)
	assert.NilError(t, os.Symlink(filepath.Dir(linked.Path()), linked.Join("node_modules")))
	cfg := config.Effective{}
	cfg.Sandbox.ShadowModules = config.ShadowOn
	assert.ErrorContains(t, shadowModules(&lifecycle.Spec{Root: linked.Path(), User: user}, cfg), "is not a directory")
}
