package container

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/profiles/seccomp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// modeCalls are the system calls that can give a file a setuid bit. Our profile
// has rules of its own for them.
func modeCalls() []string {
	return []string{"chmod", "creat", "fchmod", "fchmodat", "fchmodat2", "mknod", "mknodat", "open", "openat", "openat2"}
}

// Our profile is the Moby project's of today, but for the calls that set modes.
func TestSeccompProfileIsCurrent(t *testing.T) {
	type profile map[string]any
	decode := func(text string) (p profile) {
		assert.NilError(t, json.Unmarshal([]byte(text), &p))
		return p
	}
	calls := func(p profile) (rules []any, changed int) {
		for _, rule := range p["syscalls"].([]any) {
			rule := rule.(map[string]any)
			names := rule["names"].([]any)
			kept := slices.DeleteFunc(slices.Clone(names), func(name any) bool { return slices.Contains(modeCalls(), name.(string)) })
			changed += len(names) - len(kept)
			if rule["names"] = kept; len(kept) > 0 {
				rules = append(rules, rule)
			}
		}
		return rules, changed
	}
	b, err := json.Marshal(seccomp.DefaultProfile())
	assert.NilError(t, err)
	const x32 = `,"SCMP_ARCH_X32"`
	assert.Equal(t, strings.Count(string(b), x32), 1)
	isCurrent, ours := decode(strings.Replace(string(b), x32, "", 1)), decode(sandboxProfile)
	assert.DeepEqual(t, ours["archMap"], isCurrent["archMap"])
	assert.DeepEqual(t, ours["defaultAction"], isCurrent["defaultAction"])
	theirRules, changed := calls(isCurrent)
	assert.Equal(t, changed, len(modeCalls()), "the Moby project has a rule of its own for one of them")
	ourRules, changed := calls(ours)
	assert.Equal(t, changed, len(modeCalls())+2, "open and openat have two rules")
	assert.DeepEqual(t, ourRules, theirRules)

	delete(ours, "archMap")
	ours["syscalls"] = nil
	plain := decode(seccompProfile)
	plain["syscalls"] = nil
	assert.DeepEqual(t, plain, ours)
}

func TestSeccompOption(t *testing.T) {
	for _, tc := range []struct {
		name, option string
		ours         bool
	}{
		{"old", "name=seccomp,profile=default", true},
		{"without profile", "name=seccomp", true},
		{"current", "name=seccomp,profile=builtin", true},
		{"the administrator's own", "name=seccomp,profile=/etc/docker/seccomp.json", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info := system.Info{SecurityOptions: []string{"name=apparmor", tc.option}}
			assert.Equal(t, len(seccompOpt(info)) == 1, tc.ours)
			assert.Equal(t, len(helperSeccompOpt(info)) == 1, tc.ours)
		})
	}
}

// Only an engine with SELinux is told to leave it out.
func TestLabelsOfSELinux(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options []string
		want    []string
	}{
		{"without", []string{"name=seccomp,profile=builtin", "name=apparmor"}, nil},
		{"with", []string{"name=seccomp,profile=builtin", "name=selinux"}, []string{"label=disable"}},
		{"with, rootless", []string{"name=selinux", "name=rootless", "name=cgroupns"}, []string{"label=disable"}},
		{"similar", []string{"name=selinux2", "selinux"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info := system.Info{SecurityOptions: append([]string{"name=seccomp"}, tc.options...)}
			assert.DeepEqual(t, labelOpt(info), tc.want)
			sandbox := hostConfig(lifecycle.Spec{}, info, nil).SecurityOpt
			assert.Equal(t, slices.Contains(sandbox, "label=disable"), tc.want != nil)
		})
	}
}

func TestCheckEngine(t *testing.T) {
	confined := []string{"name=seccomp,profile=builtin"}
	for _, tc := range []struct {
		name    string
		info    system.Info
		runtime string
		err     string
		warning string
	}{
		{name: "fine", info: system.Info{SecurityOptions: confined}},
		{name: "own profile", info: system.Info{SecurityOptions: []string{"name=seccomp,profile=/etc/docker/seccomp.json"}}, warning: "can create setuid files"},
		{name: "unconfined", info: system.Info{SecurityOptions: []string{"name=apparmor", "name=seccomp,profile=unconfined"}}, err: "without seccomp"},
		{name: "without seccomp", info: system.Info{SecurityOptions: []string{"name=apparmor"}}, err: "without seccomp"},
		{
			name: "unknown runtime", runtime: "runsc", err: `unknown runtime "runsc" (sandbox.runtime): the engine has crun, runc`,
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

func TestCheckMounts(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home", "u")
	for _, dir := range []string{".ssh", ".config/gcloud", "src/project", ".dotfiles"} {
		assert.NilError(t, os.MkdirAll(filepath.Join(home, dir), 0o700))
	}
	t.Setenv("HOME", home)
	link := filepath.Join(home, "src", "link")
	assert.NilError(t, os.Symlink("project", link))
	for dir, want := range map[string]string{
		"/":                                    "your home directory",
		home:                                   "your home directory",
		filepath.Dir(home):                     "your home directory",
		"/etc":                                 "the system directory",
		"/etc/nginx":                           "the system directory",
		"/usr/lib/python3":                     "the system directory",
		"/proc/self":                           "the system directory",
		"/run/user/1000/repo":                  "the system directory",
		"/var":                                 "more than a project",
		"/usr":                                 "more than a project",
		filepath.Join(home, ".ssh"):            "the keys in",
		filepath.Join(home, ".ssh", "x"):       "the keys in",
		filepath.Join(home, ".aws", "x"):       "the keys in",
		filepath.Join(home, ".docker"):         "the keys in",
		filepath.Join(home, ".config"):         "the keys in",
		link:                                   "symbolic link",
		filepath.Join(link, "deeper"):          "symbolic link",
		filepath.Join(home, "src", "a\nb"):     "control characters",
		filepath.Join(home, "src", "a\x1b[1"):  "control characters",
		home + "/src/../src/project":           "is not normalized",
		"relative":                             "at the same path",
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

func TestWarningAboutRootWithAllowAll(t *testing.T) {
	for _, tc := range []struct {
		user   string
		mode   egress.Mode
		warned bool
	}{
		{"0:0", egress.AllowAll, true},
		{"0:100", egress.AllowAll, true},
		{"0:0", egress.Allowlist, false},
		{"1000:0", egress.AllowAll, false},
		{"0:0", "", false},
	} {
		var said []string
		d := &Driver{Report: func(message string) { said = append(said, message) }}
		d.warnAboutRoot(tc.user, tc.mode)
		assert.Equal(t, len(said) == 1 && strings.Contains(said[0], "port 53"), tc.warned, "%+v: %v", tc, said)
	}
}
