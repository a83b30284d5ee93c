package gitrepo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// noProtocol is no transport of git. An empty list would be ambiguous on Windows.
const noProtocol = "none"

// hardened are settings that override those of a repository, each NAME=VALUE.
func hardened() []string {
	return []string{
		"core.fsmonitor=false", "core.hooksPath=" + os.DevNull, "core.attributesFile=" + os.DevNull,
		"core.sshCommand=false", "core.alternateRefsCommand=true",
		"protocol.allow=never", "safe.bareRepository=explicit",
		"submodule.recurse=false", "diff.submodule=short", "log.showSignature=false",
		"gc.auto=0", "maintenance.auto=false",
	}
}

// required are options of commands that would run programs without them. Later ones of a caller
// have precedence.
func required(command string) []string {
	switch command {
	case "diff", "log", "show":
		// Dirty submodules are inspected by a git process in them, whose filters are unknown here.
		return []string{"--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"}
	case "status":
		return []string{"--ignore-submodules=dirty"}
	}
	return nil
}

// command returns a git process that runs no program that the repository names: no hook, filter,
// external diff, pager, file system monitor or signature check.
//
// It has no transport either. That also prevents the download of missing objects in a partial
// clone, for which a repository can name a program; older versions of git do not know
// GIT_NO_LAZY_FETCH. The variable GIT_ALLOW_PROTOCOL has precedence over
// protocol.NAME.allow of the repository.
func (g Git) command(ctx context.Context, args []string) (*exec.Cmd, error) {
	n := subcommand(args)
	named, err := g.named(ctx, args[:n], args[n:])
	if err != nil {
		return nil, err
	}
	all := []string{"--no-pager"}
	for _, setting := range slices.Concat(hardened(), g.Config) {
		all = append(all, "-c", setting)
	}
	all = slices.Concat(all, args[:n+1], required(args[n]), args[n+1:])
	cmd := exec.CommandContext(ctx, g.Program, all...)
	cmd.Dir = g.Dir
	cmd.Env = slices.Concat(g.Environ, overrides(g.Environ, named),
		[]string{"GIT_ALLOW_PROTOCOL=" + noProtocol, "GIT_NO_LAZY_FETCH=1", "GIT_PROXY_COMMAND="})
	return cmd, nil
}

// subcommand returns the index of the command, after git's own options.
func subcommand(args []string) int {
	i := 0
	for i < len(args)-1 && strings.HasPrefix(args[i], "-") {
		if args[i] == "-c" || args[i] == "-C" {
			i++
		}
		i++
	}
	return min(i, len(args)-1)
}

// inert reports whether a command runs neither filters nor hooks.
func inert(command []string) bool {
	switch command[0] {
	case "config", "rev-parse", "check-ref-format", "check-attr", "for-each-ref", "show-ref", "symbolic-ref", "rev-list", "merge-base",
		"log", "diff-tree", "remote", "credential", "index-pack", "unpack-objects", "pack-objects", "init":
		return true
	case "cat-file":
		return !slices.Contains(command, "--filters")
	}
	return false
}

// named returns settings that switch off the filters and hooks of the configuration: each can
// only be overridden by its name.
func (g Git) named(ctx context.Context, global, command []string) (settings [][2]string, err error) {
	if inert(command) {
		return nil, nil
	}
	if g.Known != nil {
		return g.Known.filtersAndHooks(), nil
	}
	out, err := g.Run(ctx, append(slices.Clone(global), "config", "--null", "--name-only", "--get-regexp", `^(filter|hook)\.`)...)
	if SaysNo(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading git's configuration: %w", err)
	}
	var names []string
	for key := range strings.SplitSeq(out, "\x00") {
		if i := strings.LastIndex(key, "."); i >= 0 {
			names = append(names, key[:i])
		}
	}
	return switchedOff(names), nil
}

// filtersAndHooks returns settings that switch off those of a configuration.
func (c Config) filtersAndHooks() [][2]string {
	var names []string
	for _, s := range c {
		if s.Section == "filter" || s.Section == "hook" {
			names = append(names, s.Section+"."+s.Sub)
		}
	}
	return switchedOff(names)
}

// switchedOff returns settings that switch off filters and hooks by their names, such as "filter.lfs".
func switchedOff(names []string) (settings [][2]string) {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		if strings.HasPrefix(name, "filter.") {
			settings = append(settings, [2]string{name + ".clean"}, [2]string{name + ".smudge"}, [2]string{name + ".process"}, [2]string{name + ".required", "false"})
		} else {
			settings = append(settings, [2]string{name + ".enabled", "false"})
		}
	}
	return settings
}

// overrides returns variables with settings, after those that an environment has. Unlike
// arguments, they can have names with an equals sign.
func overrides(environ []string, settings [][2]string) []string {
	if len(settings) == 0 {
		return nil
	}
	n := 0
	for _, entry := range environ {
		if count, found := strings.CutPrefix(entry, "GIT_CONFIG_COUNT="); found {
			n, _ = strconv.Atoi(count) // git rejects another one
		}
	}
	var entries []string
	for _, s := range settings {
		entries = append(entries, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, s[1]))
		n++
	}
	return append(entries, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}

// pushPrograms are settings that name a program which a push runs; those of sections with a subsection apply to any.
var pushPrograms = [][2]string{
	{"core", "sshcommand"}, {"core", "gitproxy"}, {"core", "askpass"}, {"credential", "helper"}, {"remote", "receivepack"}, {"remote", "vcs"},
}

// PushProgram returns the setting of the repository's own configuration, or of a file that it includes, that names a
// program which a push would run; empty for none.
func (g Git) PushProgram(ctx context.Context) (string, error) {
	for _, scope := range []string{"--local", "--worktree"} {
		out, err := g.Run(ctx, append(configArgs(), scope)...)
		if err != nil {
			return "", fmt.Errorf("reading git's configuration: %w", err)
		}
		for _, s := range parseConfig(out) {
			if s.Value != "" && slices.Contains(pushPrograms, [2]string{s.Section, s.Name}) {
				return s.Section + "." + s.Name, nil
			}
		}
	}
	return "", nil
}

// Push returns a command that pushes a branch to a remote at the user's terminal, with the transport that the user has
// configured. It runs no hooks: an agent can have committed those of core.hooksPath.
func (g Git) Push(ctx context.Context, remote, branch string) (*exec.Cmd, error) {
	named, err := g.named(ctx, nil, []string{"push"})
	if err != nil {
		return nil, err
	}
	ref := "refs/heads/" + branch
	cmd := exec.CommandContext(ctx, g.Program, "--no-pager", "-c", "core.hooksPath="+os.DevNull, "-c", "core.fsmonitor=false",
		"push", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no", "--receive-pack=git-receive-pack",
		"--", remote, ref+":"+ref)
	cmd.Dir = g.Dir
	cmd.Env = slices.Concat(g.Environ, overrides(g.Environ, named), []string{"GIT_ALLOW_PROTOCOL=https:http:ssh:git", "GIT_TERMINAL_PROMPT=1"})
	return cmd, nil
}

// ForOthers returns the environment of another program that runs git in the repository: its git runs no program that
// the repository names, and has no transport.
func (g Git) ForOthers(ctx context.Context) ([]string, error) {
	settings, err := g.named(ctx, nil, []string{"status"})
	if err != nil {
		return nil, err
	}
	for _, s := range append(hardened(), "diff.ignoreSubmodules=dirty") {
		name, value, _ := strings.Cut(s, "=")
		settings = append(settings, [2]string{name, value})
	}
	return slices.Concat(g.Environ, overrides(g.Environ, settings), []string{"GIT_ALLOW_PROTOCOL=" + noProtocol, "GIT_NO_LAZY_FETCH=1"}), nil
}
