package container

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// seccompProfile is the current seccomp profile of the Moby project, except that it
// denies setuid and setgid bits: such a file on the bind mount would let every account
// of the host act as the user. (nosuid only affects the sandbox's mount.) It allows the
// native architecture only, because the engine compiles it for each process and
// architecture (10 ms each).
//
//go:embed seccomp.json
var seccompProfile string

// architectures are those of the Moby project's profile without x32, which few kernels
// support and attacks have used.
const architectures = `"archMap": [
	{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]},
	{"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
	{"architecture": "SCMP_ARCH_MIPS64", "subArchitectures": ["SCMP_ARCH_MIPS", "SCMP_ARCH_MIPS64N32"]},
	{"architecture": "SCMP_ARCH_MIPS64N32", "subArchitectures": ["SCMP_ARCH_MIPS", "SCMP_ARCH_MIPS64"]},
	{"architecture": "SCMP_ARCH_MIPSEL64", "subArchitectures": ["SCMP_ARCH_MIPSEL", "SCMP_ARCH_MIPSEL64N32"]},
	{"architecture": "SCMP_ARCH_MIPSEL64N32", "subArchitectures": ["SCMP_ARCH_MIPSEL", "SCMP_ARCH_MIPSEL64"]},
	{"architecture": "SCMP_ARCH_S390X", "subArchitectures": ["SCMP_ARCH_S390"]},
	{"architecture": "SCMP_ARCH_RISCV64", "subArchitectures": null},
	{"architecture": "SCMP_ARCH_LOONGARCH64", "subArchitectures": null}
],`

// sandboxProfile is the profile of sandboxes, in which compilers and tests use other
// architectures too.
var sandboxProfile = strings.Replace(seccompProfile, "{", "{"+architectures, 1)

// seccompOpt returns the security option with the profile of sandboxes, unless the
// engine has a custom profile.
func seccompOpt(info system.Info) []string { return seccompOptOf(info, sandboxProfile) }

// labelOpt lets containers read what is mounted, on an engine with SELinux: it would deny them
// the worktree and each other's volumes. Labels of the user's files are not changed, because
// programs of the host depend on them.
func labelOpt(info system.Info) []string {
	if !hasOption(info, "selinux") {
		return nil
	}
	return []string{"label=disable"}
}

// helperSeccompOpt is seccompOpt for containers that only run our programs.
func helperSeccompOpt(info system.Info) []string { return seccompOptOf(info, seccompProfile) }

func seccompOptOf(info system.Info, profile string) []string {
	if customSeccomp(info) {
		return nil
	}
	return []string{"seccomp=" + profile}
}

// customSeccomp reports whether the engine has a custom seccomp profile.
func customSeccomp(info system.Info) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		kind, profile := seccompOption(o)
		return kind && profile != "default" && profile != "builtin"
	})
}

// seccompOption parses a security option as engines report it:
// "name=seccomp,profile=builtin".
func seccompOption(option string) (seccomp bool, profile string) {
	profile = "default"
	for part := range strings.SplitSeq(option, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case key == "name" && value == "seccomp":
			seccomp = true
		case key == "profile":
			profile = value
		}
	}
	return seccomp, profile
}

// checkEngine rejects engines that cannot isolate a sandbox, and warns about other
// limitations.
func (d *Driver) checkEngine(info system.Info, spec lifecycle.Spec) error {
	confined := false
	for _, o := range info.SecurityOptions {
		if kind, profile := seccompOption(o); kind {
			confined = profile != "unconfined"
		}
	}
	if !confined {
		return hint.Wrap(errors.New("the engine runs containers without seccomp"), `remove "seccomp-profile": "unconfined" from its configuration, or use another engine`)
	}
	if customSeccomp(info) {
		d.report("Warning: the engine has a custom seccomp profile: unless it denies setuid bits, an agent can create setuid files in your worktree")
	}
	if spec.Runtime != "" {
		if _, ok := info.Runtimes[spec.Runtime]; !ok {
			return fmt.Errorf("unknown runtime %q (sandbox.runtime): the engine has %s", spec.Runtime, strings.Join(slices.Sorted(maps.Keys(info.Runtimes)), ", "))
		}
	}
	if rootless(info) && (info.CgroupVersion == "1" || info.CgroupDriver == "none") {
		d.report("Warning: this rootless engine cannot limit memory, CPUs and processes of sandboxes\nHint: use cgroup v2 with systemd delegation")
	}
	return nil
}

func (d *Driver) report(message string) {
	if d.Report != nil {
		d.Report(message)
	}
}

// ulimits disables core dumps in the worktree. The limit of open files is not changed,
// because engines without the right to raise it would fail.
func ulimits() []*container.Ulimit {
	return []*container.Ulimit{{Name: "core", Soft: 0, Hard: 0}}
}

func rootless(info system.Info) bool { return hasOption(info, "rootless") }

func hasOption(info system.Info, name string) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		return slices.Contains(strings.Split(o, ","), "name="+name)
	})
}

// warnAboutRoot warns that the firewall of allow-all cannot distinguish DNS queries of
// root from those of the engine's resolver.
func (d *Driver) warnAboutRoot(user string, mode egress.Mode) {
	if mode == egress.AllowAll && strings.HasPrefix(user, "0:") {
		d.report("Warning: the agent runs as root in this sandbox: with the network policy \"allow-all\", it can connect to port 53 of local networks\nHint: use the network policy \"allowlist\"")
	}
}

// chooseUser returns the UID:GID of commands in the sandbox, so that files in bind
// mounts belong to the invoking user.
func chooseUser(info system.Info, spec lifecycle.Spec) (string, error) {
	user := spec.User
	switch {
	case spec.Clone:
		return fmt.Sprintf("%d:%d", user.UID, user.GID), nil
	case rootless(info):
		// UID 0 in the container is the user on the host.
		return "0:0", nil
	case hasOption(info, "userns"):
		return "", hint.Wrap(errors.New("the engine remaps users (userns-remap), so that your files would belong to another user"), "use an engine without userns-remap")
	default:
		return fmt.Sprintf("%d:%d", user.UID, user.GID), nil
	}
}
