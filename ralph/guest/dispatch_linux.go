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
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/sys/unix"
)

// Exit codes of a shell for programs that it could not start.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// dispatch is one command of the host side's user, to be run in this sandbox.
type dispatch struct {
	id         string
	rows, cols uint16 // of the user's terminal, or 0
	command    []string
}

// runDispatch becomes the command of a dispatch: ID SIZE =ARG...
func runDispatch(ctx context.Context, s streams, args []string) error {
	d, err := parseDispatch(args)
	if err != nil {
		return err
	}
	return d.run(ctx, s, shellFile{"/etc/sandbox-persistent.sh", "/bin/bash"})
}

func (d dispatch) run(ctx context.Context, s streams, file shellFile) error {
	home, err := homeDir()
	if err != nil {
		return err
	}
	now := time.Now()
	n := note{ID: d.id, Command: d.command, Since: now.UTC()}
	if err := n.write(home); err != nil {
		return err
	}
	pruneNotes(home, now)
	if err := d.setTerminalSize(); err != nil {
		_, _ = fmt.Fprintln(s.stderr, "Warning:", err)
	}
	env, err := file.variables(ctx, s, variablesOf(os.Environ()))
	if err != nil {
		_, _ = fmt.Fprintf(s.stderr, "Warning: reading %s: %v. Its variables do not count\n", file.path, err)
	}
	env["HOME"], env[wire.DispatchEnv] = home, d.id
	if env[keepAgentEnv] != "1" {
		delete(env, "SSH_AUTH_SOCK")
	}
	env["PATH"] = searchPath(programDir(home), home, env["PATH"])
	return become(d.command, env)
}

// runExec becomes another program: ARG... What every start of this program does
// comes first, such as [CloseUmask].
func runExec(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	return become(args, variablesOf(os.Environ()))
}

// parseDispatch reads the arguments of a dispatch. Each argument of the command
// stands behind a "=", because sbx refuses empty ones.
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

// setTerminalSize gives a terminal that does not know its size that of the
// user's. sbx makes such terminals.
func (d dispatch) setTerminalSize() error {
	if d.rows == 0 {
		return nil
	}
	ws, err := unix.IoctlGetWinsize(unix.Stdin, unix.TIOCGWINSZ)
	if err != nil || ws.Row != 0 || ws.Col != 0 {
		return nil // no terminal, or one that knows
	}
	ws.Row, ws.Col = d.rows, d.cols
	if err := unix.IoctlSetWinsize(unix.Stdin, unix.TIOCSWINSZ, ws); err != nil {
		return fmt.Errorf("setting the size of the terminal: %w", err)
	}
	return nil
}

// become replaces the process by the command. It returns only when that is not
// possible.
func become(command []string, env map[string]string) error {
	path, err := find(command[0], env["PATH"])
	if err == nil {
		err = unix.Exec(path, command, listOf(env))
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return codedError{exitNotFound, fmt.Errorf("%s: not found in the sandbox", command[0])}
	}
	return codedError{exitNotExecutable, fmt.Errorf("%s: cannot be run in the sandbox: %w", command[0], err)}
}

// find returns the file that a shell would run for a program's name. One that
// it may not run is an error other than [unix.ENOENT].
func find(name, searchPath string) (string, error) {
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
