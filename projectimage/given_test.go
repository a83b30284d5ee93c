package projectimage

import (
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
)

func TestUnsuitableImages(t *testing.T) {
	file := func(mode fs.FileMode) container.PathStat { return container.PathStat{Mode: mode} }
	link := func(target string) container.PathStat {
		return container.PathStat{Mode: fs.ModeSymlink | 0o777, LinkTarget: target}
	}
	const noSh = "no sh in PATH (" + defaultPath + ")"
	const noGit = "no git in PATH (" + defaultPath + ")"
	const noPasswd = "no file /etc/passwd"
	const noGroup = "no file /etc/group"
	for _, tc := range []struct {
		name   string
		env    []string
		change map[string]*container.PathStat
		want   []string
	}{
		{name: "suitable"},
		{name: "no sh", change: map[string]*container.PathStat{"/bin/sh": nil}, want: []string{noSh}},
		{name: "no git", change: map[string]*container.PathStat{"/usr/bin/git": nil}, want: []string{noGit}},
		{name: "nothing", change: map[string]*container.PathStat{"/bin/sh": nil, "/usr/bin/git": nil, "/etc/passwd": nil, "/etc/group": nil}, want: []string{noSh, noGit, noPasswd, noGroup}},
		{name: "not executable", change: map[string]*container.PathStat{"/usr/bin/git": new(file(0o644))}, want: []string{noGit}},
		{name: "folder", change: map[string]*container.PathStat{"/usr/bin/git": new(file(fs.ModeDir | 0o755))}, want: []string{noGit}},
		{name: "folder for passwd", change: map[string]*container.PathStat{"/etc/passwd": new(file(fs.ModeDir | 0o755))}, want: []string{noPasswd}},
		{name: "link", change: map[string]*container.PathStat{"/bin/sh": new(link("/bin/busybox")), "/bin/busybox": new(file(0o755))}},
		{name: "relative link", change: map[string]*container.PathStat{"/bin/sh": new(link("busybox")), "/bin/busybox": new(file(0o755))}},
		{name: "link to nowhere", change: map[string]*container.PathStat{"/bin/sh": new(link("/bin/busybox"))}, want: []string{noSh}},
		{name: "link to itself", change: map[string]*container.PathStat{"/bin/sh": new(link("/bin/sh"))}, want: []string{noSh}},
		{name: "own PATH", env: []string{"A=b", "PATH=/opt/x:/usr/bin:/bin"}},
		{
			name: "narrow PATH", env: []string{"PATH=/opt/bin:bin::\x1b[31m"},
			want: []string{
				"no sh in PATH (/opt/bin:bin::\ufffd[31m)",
				"no git in PATH (/opt/bin:bin::\ufffd[31m)",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, engine, _ := newFake(t, nil)
			engine.files = suitable()
			for name, stat := range tc.change {
				delete(engine.files, name)
				if stat != nil {
					engine.files[name] = *stat
				}
			}
			var image client.ImageInspectResult
			answer, err := json.Marshal(map[string]any{"Id": "sha256:7", "Config": map[string]any{"Env": tc.env}})
			assert.NilError(t, err)
			assert.NilError(t, json.Unmarshal(answer, &image.InspectResponse))
			err = b.checkSuitable(t.Context(), "mine:1", image)
			assert.DeepEqual(t, engine.calls, []string{"create sha256:7", "remove box"})
			if tc.want == nil {
				assert.NilError(t, err)
			} else {
				assert.Error(t, err, `image "mine:1" cannot be used for a sandbox: `+strings.Join(tc.want, ", "))
			}

			// Only a good verdict is remembered.
			engine.calls = nil
			err = b.checkSuitable(t.Context(), "mine:1", image)
			assert.Equal(t, err == nil, tc.want == nil)
			assert.Equal(t, len(engine.calls) == 0, tc.want == nil)
		})
	}
}

func TestSuitableImageWithoutALockDirectory(t *testing.T) {
	b, _, _ := newFake(t, map[string]string{"mine:1": "sha256:7"})
	assert.NilError(t, os.Remove(b.LockDir))
	_, err := b.Ensure(t.Context(), Request{Image: "mine:1"})
	assert.NilError(t, err)
}
