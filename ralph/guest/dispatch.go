package guest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/sys/unix"
)

// Exit codes of a shell for programs that cannot be started.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// dispatch is a command that the host runs in this sandbox.
type dispatch struct {
	id         string
	rows, cols uint16 // of the user's terminal, or 0
	command    []string
}

// runDispatch executes the command of a dispatch: ID SIZE =ARG...
func runDispatch(ctx context.Context, s streams, args []string) error {
	d, err := parseDispatch(args)
	if err != nil {
		return err
	}
	return d.run(ctx, s, envFile{"/etc/sandbox-persistent.sh", "/bin/bash"})
}

func (d dispatch) run(ctx context.Context, s streams, file envFile) error {
	home, err := homeDir()
	if err != nil {
		return err
	}
	// An exit code without it may be that of the program that runs commands in the microVM.
	if _, err := unix.IoctlGetWinsize(unix.Stderr, unix.TIOCGWINSZ); err != nil {
		_, _ = fmt.Fprintln(s.stderr, wire.DispatchMark(d.id))
	}
	if err := d.setTerminalSize(); err != nil {
		_, _ = fmt.Fprintln(s.stderr, "Warning:", err)
	}
	env, err := file.load(ctx, s, parseEnviron(os.Environ()))
	if err != nil {
		_, _ = fmt.Fprintf(s.stderr, "Warning: ignoring %s: %v\n", file.path, err)
	}
	env["HOME"], env[wire.DispatchEnv] = home, d.id
	if env[keepAgentEnv] != "1" {
		delete(env, "SSH_AUTH_SOCK")
	}
	completeEnv(env)
	env["PATH"] = searchPath(programDir(home), home, env["PATH"])
	if d.command[0] == wire.Program {
		d.command = append(d.command, wire.DispatchMark(d.id))
	}
	return execute(d.command, env)
}

// validID reports whether id has letters and digits only, as that of a dispatch.
func validID(id string) bool {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return id != "" && len(id) <= 64 && strings.Trim(id, letters) == ""
}

// runExec executes another program: ARG... Like every command of ralph it first
// calls [SetUmask].
func runExec(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	return execute(args, parseEnviron(os.Environ()))
}

// parseDispatch parses the arguments of a dispatch. Each argument of the command is
// prefixed with "=", because sbx rejects empty ones.
func parseDispatch(args []string) (dispatch, error) {
	if len(args) < 3 || !validID(args[0]) {
		return dispatch{}, errUsage
	}
	d := dispatch{id: args[0]}
	if args[1] != "-" {
		var err error
		if d.rows, d.cols, err = parseSize(args[1]); err != nil {
			return dispatch{}, err
		}
	}
	for _, arg := range args[2:] {
		plain, ok := strings.CutPrefix(arg, "=")
		if !ok {
			return dispatch{}, errUsage
		}
		d.command = append(d.command, plain)
	}
	return d, nil
}

func parseSize(size string) (rows, cols uint16, err error) {
	r, c, _ := strings.Cut(size, "x")
	both := [2]uint16{}
	for i, number := range []string{r, c} {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n == 0 || n > math.MaxInt16 {
			return 0, 0, errUsage
		}
		both[i] = uint16(n)
	}
	return both[0], both[1], nil
}

// setTerminalSize sets the size of a terminal that has none, as sbx creates them.
func (d dispatch) setTerminalSize() error {
	if d.rows == 0 {
		return nil
	}
	ws, err := unix.IoctlGetWinsize(unix.Stdin, unix.TIOCGWINSZ)
	if err != nil || ws.Row != 0 || ws.Col != 0 {
		return nil // no terminal, or its size is known
	}
	ws.Row, ws.Col = d.rows, d.cols
	if err := unix.IoctlSetWinsize(unix.Stdin, unix.TIOCSWINSZ, ws); err != nil {
		return fmt.Errorf("setting the terminal size: %w", err)
	}
	return nil
}

// execute replaces the process by the command. It returns only on failure.
func execute(command []string, env map[string]string) error {
	path, err := lookPath(command[0], env["PATH"])
	if err == nil {
		err = unix.Exec(path, command, environ(env))
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return codedError{exitNotFound, fmt.Errorf("%s: not found in the sandbox", command[0])}
	}
	return codedError{exitNotExecutable, fmt.Errorf("%s: cannot execute in the sandbox: %w", command[0], err)}
}

// lookPath returns the file that a shell would run for a program's name. The error
// for one that is not executable is not [unix.ENOENT].
func lookPath(name, searchPath string) (string, error) {
	if name == "" {
		return "", unix.ENOENT
	}
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	found := error(unix.ENOENT)
	for _, dir := range filepath.SplitList(searchPath) {
		if dir == "" {
			continue
		}
		path := filepath.Join(dir, name)
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			found = err
		}
	}
	return "", found
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return unix.EISDIR
	}
	return unix.Access(path, unix.X_OK)
}
