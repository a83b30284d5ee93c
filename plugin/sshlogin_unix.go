//go:build unix

package plugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// loginPersists is how long a login is kept after its last connection, in seconds.
const loginPersists = 60

// socketPathMax is the length of a socket's path that every system accepts.
const socketPathMax = 103

// socketNameLength is the length of the name of a control socket: "/", the hash for %C, and the suffix
// that ssh adds while it creates the socket.
const socketNameLength = 1 + 40 + 17

// sharedLogin returns the options of ssh with which all connections to a machine share one login;
// none without a directory for its socket.
func sharedLogin() []string {
	for _, dir := range loginDirs() {
		if err := privateDir(dir); err == nil {
			return []string{
				"-o", "ControlMaster=auto",
				"-o", fmt.Sprintf("ControlPersist=%ds", loginPersists),
				"-o", "ControlPath=" + dir + "/%C",
			}
		}
	}
	return nil
}

func loginDirs() []string {
	dirs := []string{fmt.Sprintf("/tmp/docker-ralph-%d", os.Geteuid())}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		dirs = append([]string{filepath.Join(runtime, "docker-ralph")}, dirs...)
	}
	return dirs
}

// plainPath matches paths without characters that ssh expands or splits.
var plainPath = lazyregexp.New(`^[A-Za-z0-9/._-]+$`)

// privateDir ensures that only the user can use a directory, and that a control socket fits in it.
func privateDir(dir string) error {
	if len(dir)+socketNameLength > socketPathMax || !plainPath().MatchString(dir) {
		return fmt.Errorf("the path %s is too long or has special characters", dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm()&0o077 != 0 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("directory %s is accessible by other users", dir)
	}
	return nil
}

// newSession keeps signals of the terminal from ssh, and prompts off the terminal, as the Docker CLI
// does for a ProxyCommand.
func newSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
