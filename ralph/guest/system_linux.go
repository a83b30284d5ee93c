package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// system runs the programs of the sandbox, as root where needed.
type system struct {
	ctx context.Context
	// lock is the standard input of each program, which keeps it locked. It is
	// empty. Other open files would not get through sudo.
	lock *os.File
}

var errNoSudo = errors.New("root is needed, and there is no sudo. Use an image that has sudo, or whose user is root")

// run carries out a command and returns what it said.
func (s system) run(asRoot bool, command ...string) (string, error) {
	if asRoot && os.Getuid() != 0 {
		if _, err := exec.LookPath("sudo"); err != nil {
			return "", errNoSudo
		}
		command = append(append([]string{"sudo", "-n"}, keepProxies()...), command...)
	}
	cmd := exec.CommandContext(s.ctx, command[0], command[1:]...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.lock, &said, &said
	cmd.Env = withProxies(os.Environ())
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return said.String(), fmt.Errorf("%s: %w%s", strings.Join(command[:min(2, len(command))], " "), err, lastLines(said.String()))
	}
	return said.String(), nil
}

// proxies are the variables that lead out of a sandbox, as apt-get reads them.
var proxies = [...]string{"http_proxy", "https_proxy", "no_proxy"}

// withProxies adds those that are set in capital letters only, as microVMs have
// them.
func withProxies(environ []string) []string {
	vars := variablesOf(environ)
	for _, name := range proxies {
		if value, ok := vars[strings.ToUpper(name)]; ok && vars[name] == "" {
			vars[name] = value
		}
	}
	return listOf(vars)
}

// keepProxies lets them through sudo. Without any there is nothing to ask for,
// which sudo may be told to refuse.
func keepProxies() []string {
	vars := variablesOf(withProxies(os.Environ()))
	for _, name := range proxies {
		if vars[name] != "" {
			return []string{"--preserve-env=" + strings.Join(proxies[:], ",")}
		}
	}
	return nil
}

// script runs lines of shell that stop at the first error. The folders' parents
// belong to root, so that only its own programs can do it.
func (s system) script(asRoot bool, what, lines string, args ...string) error {
	if _, err := s.run(asRoot, append([]string{"sh", "-euc", "umask 022; " + lines, "sh"}, args...)...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// link puts a symbolic link in place at once.
func (s system) link(target, path string, asRoot bool) error {
	return s.script(asRoot, "installing "+path, `ln -sfn "$1" "$2.ralph-new"; mv -fT "$2.ralph-new" "$2"`, target, path)
}

// lastLines are the end of what a program said, to stand in an error.
func lastLines(said string) string {
	const most = 5
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return ":\n  " + strings.Join(lines[max(0, len(lines)-most):], "\n  ")
}
