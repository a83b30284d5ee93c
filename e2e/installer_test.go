//go:build unix

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// The Docker configuration folders and releases that the tests of scripts/install.sh
// use.

// installation is a Docker configuration folder into which scripts/install.sh
// installs.
type installation struct {
	dir    string // holds the rest
	script string
	target string
	temp   string
	env    []string
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	dir, err := os.MkdirTemp(shared.dir, "install-")
	assert.NilError(t, err)
	assert.NilError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { assert.Check(t, os.RemoveAll(dir)) })
	in := &installation{
		dir: dir, script: filepath.Join(shared.root, "scripts", "install.sh"), temp: filepath.Join(dir, "tmp"),
		target: filepath.Join(dir, "docker", "cli-plugins", "docker-ralph"),
	}
	assert.NilError(t, os.Mkdir(in.temp, 0o755))
	in.env = []string{
		"PATH=" + shared.bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + in.temp,
		"DOCKER_CONFIG=" + filepath.Join(dir, "docker"), "http_proxy=http://127.0.0.1:1",
	}
	return in
}

// run runs the script, which has to leave nothing but what it installs.
func (in *installation) run(t *testing.T, args ...string) result {
	t.Helper()
	cmd := exec.Command(in.script, args...)
	cmd.Env = in.env
	res := run(t, cmd)
	for _, folder := range []string{in.temp, filepath.Dir(in.target)} {
		left, err := os.ReadDir(folder)
		assert.Check(t, err == nil || os.IsNotExist(err), err)
		for _, f := range left {
			assert.Check(t, is.Equal(f.Name(), "docker-ralph"), "%s was left in %s", f.Name(), folder)
		}
	}
	return res
}

// put makes a program that is found first.
func (in *installation) put(t *testing.T, name, script string) {
	t.Helper()
	bin := filepath.Join(in.dir, "bin")
	assert.NilError(t, os.MkdirAll(bin, 0o755))
	syscall.ForkLock.RLock() // a child that is forked meanwhile would hold the program open: "text file busy"
	err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755)
	syscall.ForkLock.RUnlock()
	assert.NilError(t, err)
	in.env = append(in.env, "PATH="+bin+":"+shared.bin+":/usr/local/bin:/usr/bin:/bin")
}

// without leaves a program out of the PATH.
func (in *installation) without(t *testing.T, name string) {
	t.Helper()
	bin := filepath.Join(in.dir, "without")
	assert.NilError(t, os.MkdirAll(bin, 0o755))
	for _, folder := range []string{"/bin", "/usr/bin"} {
		programs, err := os.ReadDir(folder)
		assert.NilError(t, err)
		for _, p := range programs {
			if p.Name() != name {
				_ = os.Symlink(filepath.Join(folder, p.Name()), filepath.Join(bin, p.Name())) // both can have it
			}
		}
	}
	in.env = append(in.env, "PATH="+bin)
}

// fakePlugin answers as the plugin does when the Docker CLI asks what it is, or runs it.
const fakePlugin = "#!/bin/sh\n[ \"$1\" != docker-cli-plugin-metadata ] || echo '{ \"SchemaVersion\": \"0.1.0\", \"Vendor\": \"docker-ralph\", \"Version\": \"v7\" }'\n"

const releaseName = "docker-ralph-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"

// release is one that has a plugin.
func release(t *testing.T, name, plugin string) map[string]string {
	t.Helper()
	return releaseOf(name, releaseArchive(t, strings.TrimSuffix(name, ".tar.gz")+"/docker-ralph", plugin))
}

func releaseOf(name, archive string) map[string]string {
	return map[string]string{name: archive, "SHA256SUMS": fmt.Sprintf(
		"%064x  other\n%x  %s\n", 1, sha256.Sum256([]byte(archive)), name)}
}

func writeRelease(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, content := range files {
		assert.NilError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644))
	}
	return folder
}

// releaseArchive is a .tar.gz of one program.
func releaseArchive(t *testing.T, name, content string) string {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	out := tar.NewWriter(zipped)
	assert.NilError(t, out.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
	_, err := out.Write([]byte(content))
	assert.NilError(t, err)
	assert.NilError(t, out.Close())
	assert.NilError(t, zipped.Close())
	return b.String()
}

// installed asserts that the plugin is there, with what it needs to be run.
func (in *installation) installed(t *testing.T, plugin string) {
	t.Helper()
	content, err := os.ReadFile(in.target)
	assert.NilError(t, err)
	assert.Assert(t, string(content) == plugin, "another plugin is installed")
	info, err := os.Lstat(in.target)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode(), os.FileMode(0o755))
}

// old installs a plugin that was there before.
func (in *installation) old(t *testing.T) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(in.target), 0o755))
	assert.NilError(t, os.WriteFile(in.target, []byte("old"), 0o755))
}
