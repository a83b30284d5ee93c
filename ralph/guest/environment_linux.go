package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// keepEnv names further variables, separated by commas, that a file of the
	// sandbox must not change.
	keepEnv = "RALPH_DISPATCH_KEEP"
	// keepAgentEnv leaves the user's ssh agent to the command if it is 1. sbx
	// forwards it unasked, and a loop must not be able to sign in as the user.
	keepAgentEnv = "RALPH_KEEP_SSH_AUTH_SOCK"
)

func variablesOf(environ []string) map[string]string {
	vars := make(map[string]string, len(environ))
	for _, v := range environ {
		if name, value, ok := strings.Cut(v, "="); ok && name != "" {
			vars[name] = value
		}
	}
	return vars
}

func listOf(vars map[string]string) []string {
	list := make([]string, 0, len(vars))
	for name, value := range vars {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// shellFile is a file of a sandbox in which its user keeps variables, written
// for bash. A program that is run without a shell would not see them.
type shellFile struct{ path, bash string }

// source reads the file in a shell of its own and writes the variables that it
// has then to file descriptor 3, also if the file leaves the shell.
const source = `trap 'command -p env -0 >&3' EXIT
. "$0" >&2
`

// variables returns own with what the file sets. The file counts less than the
// variables that come from the host with the dispatch. With an error comes own.
func (f shellFile) variables(ctx context.Context, s streams, own map[string]string) (map[string]string, error) {
	if info, err := os.Stat(f.path); err != nil || info.Size() == 0 {
		return own, nil
	}
	if _, err := os.Stat(f.bash); err != nil {
		return own, nil
	}
	theirs, err := f.read(ctx, s, own)
	if err != nil {
		return own, err
	}
	return merge(own, theirs), nil
}

// read runs the file. What it writes to is memory, not a pipe: a program that
// the file leaves running must not keep us waiting.
func (f shellFile) read(ctx context.Context, s streams, own map[string]string) (map[string]string, error) {
	fd, err := unix.MemfdCreate("variables", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making room for its variables: %w", err)
	}
	out := os.NewFile(uintptr(fd), "variables")
	defer func() { _ = out.Close() }()
	env := maps.Clone(own)
	delete(env, "BASH_ENV") // which is this file, as a rule: once is enough
	cmd := exec.CommandContext(ctx, f.bash, "-c", source, f.path)
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = listOf(env), s.stderr, []*os.File{out}
	cmd.WaitDelay = time.Second
	// The exit code is that of the file's last command, and says nothing.
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return nil, err
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(out)
	if err != nil {
		return nil, err
	}
	content, ended := bytes.CutSuffix(content, []byte{0})
	if !ended {
		return nil, errors.New("it keeps its shell from saying its variables")
	}
	return variablesOf(strings.Split(string(content), "\x00")), nil
}

// merge lays what the file sets over own, but for what is the host's to set.
func merge(own, theirs map[string]string) map[string]string {
	vars := maps.Clone(theirs)
	// The configuration of ralph comes from the host alone.
	maps.DeleteFunc(vars, func(name, _ string) bool { return strings.HasPrefix(name, "RALPH_") })
	// The shell's own matters.
	for _, name := range []string{"_", "SHLVL", "PWD", "OLDPWD"} {
		delete(vars, name)
	}
	fixed := []string{"_", "SHLVL", "PWD", "OLDPWD"}
	if _, ok := vars["BASH_ENV"]; !ok {
		fixed = append(fixed, "BASH_ENV")
	}
	for name := range strings.SplitSeq(own[keepEnv], ",") {
		fixed = append(fixed, strings.TrimSpace(name))
	}
	for name, value := range own {
		if slices.Contains(fixed, name) || strings.HasPrefix(name, "RALPH_") || strings.HasPrefix(name, "GIT_CONFIG_") {
			vars[name] = value
		}
	}
	return vars
}

// searchPath puts the folder of ralph, and that of the user's programs, before
// all others.
func searchPath(ralphDir, home, rest string) string {
	if rest == "" {
		rest = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	dirs := []string{ralphDir}
	for _, dir := range append([]string{filepath.Join(home, ".local", "bin")}, filepath.SplitList(rest)...) {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// programDir is the folder of the ralph that commands are to call. That is the
// one that was installed: the running one may lie elsewhere, and be another.
func programDir(home string) string {
	if m, err := readMarker(home); err == nil && filepath.IsAbs(m.Path) {
		return filepath.Dir(m.Path)
	}
	self, err := os.Executable()
	if err != nil {
		return "/usr/local/bin"
	}
	return filepath.Dir(self)
}
