package container

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/profiles/seccomp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/egress"
)

func TestOurFilterIsTheCurrentOne(t *testing.T) {
	decode := func(text string) (profile map[string]any) {
		assert.NilError(t, json.Unmarshal([]byte(text), &profile))
		return profile
	}
	b, err := json.Marshal(seccomp.DefaultProfile())
	assert.NilError(t, err)
	const x32 = `,"SCMP_ARCH_X32"`
	assert.Equal(t, strings.Count(string(b), x32), 1)
	current := decode(strings.Replace(string(b), x32, "", 1))
	assert.DeepEqual(t, decode(sandboxProfile), current)
	delete(current, "archMap")
	assert.DeepEqual(t, decode(seccompProfile), current)
}

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		name, version, option string
		ours, program         bool
	}{
		{"old", "20.10.24+dfsg1", "name=seccomp,profile=default", true, true},
		{"without profile", "19.03.1", "name=seccomp", true, true},
		{"before the last change", "29.4.2", "name=seccomp,profile=builtin", true, true},
		{"built from a branch", "29.0.0-v2.0.0-beta.24", "name=seccomp,profile=builtin", true, true},
		{"unreadable", "dev", "name=seccomp,profile=builtin", true, true},
		{"current", "29.5.0", "name=seccomp,profile=builtin", false, true},
		{"next", "30.0.0-rc.1", "name=seccomp,profile=builtin", false, true},
		{"the administrator's own", "20.10.24", "name=seccomp,profile=/etc/docker/seccomp.json", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info := system.Info{ServerVersion: tc.version, SecurityOptions: []string{"name=apparmor", tc.option}}
			assert.Equal(t, len(filter(info)) == 1, tc.ours)
			assert.Equal(t, len(ownFilter(info)) == 1, tc.program)
		})
	}
}

func TestEnginesThatCannotHoldASandbox(t *testing.T) {
	confined := []string{"name=seccomp,profile=builtin"}
	for _, tc := range []struct {
		name    string
		info    system.Info
		runtime string
		err     string
		warning string
	}{
		{name: "fine", info: system.Info{SecurityOptions: confined}},
		{name: "unconfined", info: system.Info{SecurityOptions: []string{"name=apparmor", "name=seccomp,profile=unconfined"}}, err: "without a filter of system calls"},
		{name: "without seccomp", info: system.Info{SecurityOptions: []string{"name=apparmor"}}, err: "without a filter of system calls"},
		{
			name: "unknown runtime", runtime: "runsc", err: `no runtime "runsc" (sandbox.runtime): it has crun, runc`,
			info: system.Info{SecurityOptions: confined, Runtimes: map[string]system.RuntimeWithStatus{"runc": {}, "crun": {}}},
		},
		{
			name: "known runtime", runtime: "crun",
			info: system.Info{SecurityOptions: confined, Runtimes: map[string]system.RuntimeWithStatus{"runc": {}, "crun": {}}},
		},
		{
			name: "rootless without limits", warning: "cannot limit memory",
			info: system.Info{SecurityOptions: append([]string{"name=rootless"}, confined...), CgroupVersion: "1"},
		},
		{
			name: "rootless with limits",
			info: system.Info{SecurityOptions: append([]string{"name=rootless"}, confined...), CgroupVersion: "2", CgroupDriver: "systemd"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var said string
			d := &Driver{Report: func(message string) { said += message }}
			err := d.checkEngine(tc.info, lifecycle.Spec{Runtime: tc.runtime})
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
			if tc.warning == "" {
				assert.Equal(t, said, "")
			} else {
				assert.Check(t, is.Contains(said, tc.warning))
			}
		})
	}
}

func TestWhatIsNoWorkTree(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home", "u")
	for _, dir := range []string{".ssh", ".config/gcloud", "src/project", ".dotfiles"} {
		assert.NilError(t, os.MkdirAll(filepath.Join(home, dir), 0o700))
	}
	t.Setenv("HOME", home)
	link := filepath.Join(home, "src", "link")
	assert.NilError(t, os.Symlink("project", link))
	for dir, want := range map[string]string{
		"/":                                    "whole home directory",
		home:                                   "whole home directory",
		filepath.Dir(home):                     "whole home directory",
		"/etc":                                 "belongs to the system",
		"/etc/nginx":                           "belongs to the system",
		"/usr/lib/python3":                     "belongs to the system",
		"/proc/self":                           "belongs to the system",
		"/run/user/1000/repo":                  "belongs to the system",
		"/var":                                 "much more than a project",
		"/usr":                                 "much more than a project",
		filepath.Join(home, ".ssh"):            "the keys in",
		filepath.Join(home, ".ssh", "x"):       "the keys in",
		filepath.Join(home, ".aws", "x"):       "the keys in",
		filepath.Join(home, ".docker"):         "the keys in",
		filepath.Join(home, ".config"):         "the keys in",
		link:                                   "symbolic link",
		filepath.Join(link, "deeper"):          "symbolic link",
		filepath.Join(home, "src", "a\nb"):     "control characters",
		filepath.Join(home, "src", "a\x1b[1"):  "control characters",
		home + "/src/../src/project":           "plain form",
		"relative":                             "on Windows",
		filepath.Join(home, "src", "project"):  "",
		filepath.Join(home, ".dotfiles"):       "",
		filepath.Join(home, "src", "$(x) 'y'"): "",
		filepath.Join(home, "not", "there"):    "",
	} {
		t.Run(dir, func(t *testing.T) {
			for _, spec := range []lifecycle.Spec{{Root: dir}, {Root: filepath.Join(home, "src", "project"), Mounts: []string{dir}}} {
				err := checkMounts(spec)
				if want == "" {
					assert.Check(t, err)
				} else {
					assert.Check(t, is.ErrorContains(err, want))
				}
			}
		})
	}
}

func TestRootIsToldWhatAnOpenWallLetsThrough(t *testing.T) {
	for _, tc := range []struct {
		user string
		mode egress.Mode
		told bool
	}{
		{"0:0", egress.AllowAll, true},
		{"0:100", egress.AllowAll, true},
		{"0:0", egress.Allowlist, false},
		{"1000:0", egress.AllowAll, false},
		{"0:0", "", false},
	} {
		var said []string
		d := &Driver{Report: func(message string) { said = append(said, message) }}
		d.warnOfRoot(tc.user, tc.mode)
		assert.Equal(t, len(said) == 1 && strings.Contains(said[0], "port 53"), tc.told, "%+v: %v", tc, said)
	}
}
