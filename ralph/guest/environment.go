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
	// keepEnv lists further variables, separated by commas, that the sandbox's file
	// must not change.
	keepEnv = "RALPH_DISPATCH_KEEP"
	// keepAgentEnv set to 1 keeps the user's ssh-agent, which sbx always forwards.
	// A loop must not be able to log in as the user.
	keepAgentEnv = "RALPH_KEEP_SSH_AUTH_SOCK"
)

func parseEnviron(environ []string) map[string]string {
	vars := make(map[string]string, len(environ))
	for _, v := range environ {
		if name, value, ok := strings.Cut(v, "="); ok && name != "" {
			vars[name] = value
		}
	}
	return vars
}

func environ(vars map[string]string) []string {
	list := make([]string, 0, len(vars))
	for name, value := range vars {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// envFile is a bash script in a sandbox that sets the user's variables. Programs
// started without a shell would miss them.
type envFile struct{ path, bash string }

// sourceScript sources the file and writes the environment to file descriptor 3, even
// if the file exits the shell.
const sourceScript = `trap 'command -p env -0 >&3' EXIT
. "$0" >&2
`

// load returns own merged with the file's variables. Variables that come from the host
// with the dispatch take precedence. After an error it returns own.
func (f envFile) load(ctx context.Context, s streams, own map[string]string) (map[string]string, error) {
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

// read runs the file. It writes to memory instead of a pipe, which background
// processes of the file would keep open.
func (f envFile) read(ctx context.Context, s streams, own map[string]string) (map[string]string, error) {
	fd, err := unix.MemfdCreate("variables", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating a memory file: %w", err)
	}
	out := os.NewFile(uintptr(fd), "variables")
	defer func() { _ = out.Close() }()
	env := maps.Clone(own)
	delete(env, "BASH_ENV") // usually this very file
	cmd := exec.CommandContext(ctx, f.bash, "-c", sourceScript, f.path)
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = environ(env), s.stderr, []*os.File{out}
	cmd.WaitDelay = time.Second
	// The exit code is that of the file's last command.
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
	content, complete := bytes.CutSuffix(content, []byte{0})
	if !complete {
		return nil, errors.New("the shell did not report its environment")
	}
	return parseEnviron(strings.Split(string(content), "\x00")), nil
}

// merge returns theirs over own, except for variables that only the host may set.
func merge(own, theirs map[string]string) map[string]string {
	vars := maps.Clone(theirs)
	// Only the host configures ralph.
	maps.DeleteFunc(vars, func(name, _ string) bool { return strings.HasPrefix(name, "RALPH_") })
	fixed := []string{"_", "SHLVL", "PWD", "OLDPWD"} // set by the shell itself
	for _, name := range fixed {
		delete(vars, name)
	}
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

// searchPath prepends the directories of ralph and of the user's programs.
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

// programDir returns the directory of the installed ralph. The running one may be
// another version elsewhere.
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
