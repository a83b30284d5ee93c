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
	named, err := g.named(ctx, args[:n], args[n])
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
func inert(command string) bool {
	switch command {
	case "config", "rev-parse", "check-ref-format", "check-attr", "for-each-ref", "show-ref", "symbolic-ref", "rev-list", "merge-base",
		"log", "diff-tree", "cat-file", "remote", "credential", "index-pack", "unpack-objects", "pack-objects", "init":
		return true
	}
	return false
}

// named returns settings that switch off the filters and hooks of the configuration: each can
// only be overridden by its name.
func (g Git) named(ctx context.Context, global []string, command string) (settings [][2]string, err error) {
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
