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
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// seccompProfile is the current seccomp profile of the Moby project, except that
// no file gets a setuid or setgid bit: on the bind mount it would lend the user's
// identity to every account of the machine. (nosuid would not help, it is about the
// sandbox's own mount.) It lets programs of the machine's own architecture through,
// and no others: an engine compiles it for each program that it starts, once for
// each architecture (10 ms each, measured).
//
//go:embed seccomp.json
var seccompProfile string

// architectures are those whose programs run in a sandbox, as in the Moby
// project's filter but for x32: hardly a kernel has that, and attacks had it.
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

// sandboxProfile is the filter of a sandbox, in which compilers and tests use
// other architectures too.
var sandboxProfile = strings.Replace(seccompProfile, "{", "{"+architectures, 1)

// filter returns the security option with our seccomp profile, unless the engine's
// administrator has chosen one.
func filter(info system.Info) []string { return filterOf(info, sandboxProfile) }

// ownFilter is that for containers in which nothing but our own program runs.
func ownFilter(info system.Info) []string { return filterOf(info, seccompProfile) }

func filterOf(info system.Info, profile string) []string {
	if chosenFilter(info) {
		return nil
	}
	return []string{"seccomp=" + profile}
}

// chosenFilter reports whether who runs the engine has given it a filter.
func chosenFilter(info system.Info) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		kind, profile := seccompOption(o)
		return kind && profile != "default" && profile != "builtin"
	})
}

// seccompOption reads an option as engines report it:
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

// checkEngine refuses engines that cannot hold what a sandbox promises, and
// says what else may not hold.
func (d *Driver) checkEngine(info system.Info, spec lifecycle.Spec) error {
	confined := false
	for _, o := range info.SecurityOptions {
		if kind, profile := seccompOption(o); kind {
			confined = profile != "unconfined"
		}
	}
	if !confined {
		return errors.New("the engine runs containers without a filter of system calls (seccomp), so a sandbox on it would not be one: remove \"seccomp-profile\": \"unconfined\" from its configuration, or use another engine")
	}
	if chosenFilter(info) {
		d.report("Warning: the engine's own seccomp profile is used for sandboxes: unless it refuses setuid bits, an agent can leave setuid files in your worktree")
	}
	if spec.Runtime != "" {
		if _, ok := info.Runtimes[spec.Runtime]; !ok {
			return fmt.Errorf("the engine has no runtime %q (sandbox.runtime): it has %s", spec.Runtime, strings.Join(slices.Sorted(maps.Keys(info.Runtimes)), ", "))
		}
	}
	if rootless(info) && (info.CgroupVersion == "1" || info.CgroupDriver == "none") {
		d.report("Warning: this rootless engine cannot limit memory, processors and processes: it needs cgroup v2 with delegation by systemd. A sandbox can use up the machine.")
	}
	return nil
}

func (d *Driver) report(message string) {
	if d.Report != nil {
		d.Report(message)
	}
}

// ulimits keeps processes from leaving their memory in the work tree. The number
// of open files stays the engine's: one that may not raise its own limit fails
// to start a container with a higher one.
func ulimits() []*container.Ulimit {
	return []*container.Ulimit{{Name: "core", Soft: 0, Hard: 0}}
}

func rootless(info system.Info) bool { return hasOption(info, "rootless") }

func hasOption(info system.Info, name string) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		return slices.Contains(strings.Split(o, ","), "name="+name)
	})
}

// warnOfRoot tells where a wall lets more through than it says: an open one takes
// what root asks at port 53 for what the engine's resolver asks.
func (d *Driver) warnOfRoot(user string, mode egress.Mode) {
	if mode == egress.AllowAll && strings.HasPrefix(user, "0:") {
		d.report("Warning: the agent is user 0 in this sandbox, so with the network policy \"allow-all\" it reaches port 53 of every address, those of your own networks too. With \"allowlist\" it does not.")
	}
}

// chooseUser returns the UID:GID that commands in the sandbox run as, so that
// files in the bind mounts end up with the invoking user.
func chooseUser(info system.Info, user lifecycle.User) (string, error) {
	switch {
	case rootless(info):
		// There, 0 in the container is the user outside.
		return "0:0", nil
	case hasOption(info, "userns"):
		return "", errors.New("the engine remaps users (userns-remap), so files of the sandbox would belong to somebody else: use an engine without it")
	default:
		return fmt.Sprintf("%d:%d", user.UID, user.GID), nil
	}
}
