package sandboxcli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/moby/sys/atomicwriter"
)

// markerEnv marks the processes of a sandbox, for stopping them.
const markerEnv = "SANDBOX_DOUBLE_GUEST"

// processes are sandboxes that are nothing but process trees of this user.
type processes struct{ c *call }

func (p processes) marker(name string) string { return markerEnv + "=" + p.c.store.path("homes", name) }

func (p processes) create(*record) error { return nil }
func (p processes) start(record) error   { return nil }

// stop kills every process that has the marker.
func (p processes) stop(r record) error {
	marker := p.marker(r.Name)
	return killMarked(func(entry string) bool { return entry == marker })
}

func (p processes) remove(r record) error { return p.stop(r) }

// killBelow kills the processes of all sandboxes whose state is in a directory.
func killBelow(dir string) error {
	return killMarked(func(entry string) bool { return strings.HasPrefix(entry, markerEnv+"="+dir+"/") })
}

// killMarked kills until no process has the marker in its
// environment: what is killed may have forked just before.
func killMarked(match func(entry string) bool) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		found, err := marked(match)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("stopping processes: %d do not end", len(found))
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// marked lists the processes with an entry in their environment that matches.
func marked(match func(entry string) bool) ([]int, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, path := range paths {
		environ, err := os.ReadFile(path)
		if err != nil {
			continue // of another user, or it has exited
		}
		for e := range bytes.SplitSeq(environ, []byte{0}) {
			var pid int
			if !match(string(e)) {
				continue
			}
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil && pid != os.Getpid() {
				found = append(found, pid)
			}
			break
		}
	}
	return found, nil
}

// pathWithoutSudo is the caller's PATH behind a sudo that refuses: what a
// sandbox may do to itself must not be done to the host.
func (p processes) pathWithoutSudo() (string, error) {
	dir := p.c.store.path("bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	refuse := filepath.Join(dir, "sudo")
	if _, err := os.Stat(refuse); err != nil {
		if err := atomicwriter.WriteFile(refuse, []byte("#!/bin/sh\necho 'sudo: not here' >&2\nexit 1\n"), 0o755); err != nil {
			return "", err
		}
	}
	path := []string{dir}
	for _, d := range filepath.SplitList(os.Getenv("PATH")) {
		// A ralph of the machine is not one of the sandbox.
		if _, err := os.Stat(filepath.Join(d, "ralph")); err != nil {
			path = append(path, d)
		}
	}
	return strings.Join(path, string(os.PathListSeparator)), nil
}

// exec runs a command in the background process, so that it outlives this
// client.
func (p processes) exec(r record, g guest) (int, error) {
	path, err := p.pathWithoutSudo()
	if err != nil {
		return 0, err
	}
	env := append([]string{
		"PATH=" + path, "HOME=" + p.c.store.path("homes", r.Name), "USER=agent", "LOGNAME=agent",
	}, g.env...)
	env = append(env, p.marker(r.Name))
	if g.dir == "" {
		g.dir = p.c.store.path("homes", r.Name)
	}
	dir := g.dir
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return p.c.errOCI(fmt.Sprintf("chdir to cwd (%q) set in config.json failed: no such file or directory", g.dir))
	}
	program, ok := pathOf(g.args[0], lastValue(env, "PATH"), func(path string) bool {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return unix.Access(path, unix.X_OK) == nil && !isDir(path)
	})
	if !ok {
		return p.c.errOCI(missing(g.args[0]))
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	conn, err := p.c.dialDaemon()
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	req := request{Path: program, Args: g.args, Env: env, Dir: dir, TTY: g.tty, Detached: g.detached}
	switch {
	case g.detached:
		return p.detached(conn, req)
	case g.tty:
		return p.terminal(conn, req, g)
	default:
		return p.pipes(conn, req, g)
	}
}

// missing is runc's error for a missing program.
func missing(program string) string {
	if strings.Contains(program, "/") {
		return fmt.Sprintf("exec: %q: stat %s: no such file or directory", program, program)
	}
	return fmt.Sprintf("exec: %q: executable file not found in $PATH", program)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func lastValue(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

func (p processes) detached(conn *net.UnixConn, req request) (int, error) {
	if err := send(conn, req); err != nil {
		return 0, err
	}
	return p.wait(conn, req)
}

// wait waits for the answer of the background process.
func (p processes) wait(conn *net.UnixConn, req request) (int, error) {
	var a answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return 0, p.c.fail("the fake's background process is gone: %v", err)
	}
	if a.Error != "" {
		return p.c.errOCI(fmt.Sprintf("exec %s: %s", req.Path, a.Error))
	}
	return a.Code, nil
}
