package double

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/moby/term"
	"golang.org/x/sys/unix"
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

// killBelow kills the processes of all sandboxes whose state is in a folder.
func killBelow(dir string) error {
	return killMarked(func(entry string) bool { return strings.HasPrefix(entry, markerEnv+"="+dir+"/") })
}

// killMarked kills until nothing is left that has the marker in its
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
			continue // somebody else's, or gone
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

// exec has the background process run a command, so that it outlives this
// client.
func (p processes) exec(r record, g guest) (int, error) {
	env := append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.c.store.path("homes", r.Name), "USER=agent", "LOGNAME=agent",
	}, g.env...)
	env = append(env, p.marker(r.Name))
	if g.dir == "" {
		g.dir = p.c.store.path("homes", r.Name)
	}
	dir := r.hostPath(g.dir)
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

// missing is runc's word on a program that is not there.
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

// pipes runs a command without a terminal.
func (p processes) pipes(conn *net.UnixConn, req request, g guest) (int, error) {
	var ours, theirs []*os.File
	for i := range 3 {
		r, w, err := pipe()
		if err != nil {
			return 0, err
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	// The background process gets the reading ends too, to go on reading when
	// this client is no more.
	err := send(conn, req, theirs[0], theirs[1], theirs[2], ours[1], ours[2])
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		return 0, err
	}
	go func() {
		if g.stdin {
			_, _ = io.Copy(ours[0], p.c.stdin)
		}
		_ = ours[0].Close()
	}()
	output := make(chan struct{}, 2)
	for i, to := range []*os.File{p.c.stdout, p.c.stderr} {
		go func() {
			_, _ = io.Copy(to, ours[i+1])
			output <- struct{}{}
		}()
	}
	code, err := p.wait(conn, req)
	// Something that the command left behind may hold its output open. The
	// engine waits that long for it.
	patience := time.After(2 * time.Second)
	for range 2 {
		select {
		case <-output:
		case <-patience:
			return code, err
		}
	}
	return code, err
}

// pipe makes a pipe whose ends block, as a program expects them to.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// terminal runs a command on a terminal of its own, tied to the user's.
func (p processes) terminal(conn *net.UnixConn, req request, g guest) (int, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return 0, fmt.Errorf("making a terminal: %w", err)
	}
	defer func() { _ = master.Close() }()
	follow := func() { _ = pty.InheritSize(p.c.stdin, master) } // no size without a terminal
	follow()
	err = send(conn, req, slave, master)
	_ = slave.Close()
	if err != nil {
		return 0, err
	}
	restore, err := p.c.raw()
	if err != nil {
		return 0, err
	}
	defer restore()
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, unix.SIGWINCH)
	go func() {
		for range sizes {
			follow()
		}
	}()
	detach := make(chan struct{})
	if g.stdin {
		go p.c.keys(master, g.detachKeys, detach)
	}
	output := make(chan struct{})
	go func() {
		_, _ = io.Copy(p.c.stdout, master)
		close(output)
	}()
	type end struct {
		code int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		code, err := p.wait(conn, req)
		ended <- end{code, err}
	}()
	select {
	case <-detach:
		return 0, p.c.errDetached()
	case e := <-ended:
		select {
		case <-output:
		case <-time.After(2 * time.Second):
		}
		return e.code, e.err
	}
}

// raw makes the user's terminal pass everything on.
func (c *call) raw() (restore func(), err error) {
	if in, _ := c.terminals(); !in {
		return func() {}, nil
	}
	state, err := term.SetRawTerminal(c.stdin.Fd())
	if err != nil {
		return nil, fmt.Errorf("setting up the terminal: %w", err)
	}
	return func() { _ = term.RestoreTerminal(c.stdin.Fd(), state) }, nil
}

// keys passes input on until the user presses the keys that detach.
func (c *call) keys(to io.Writer, detachKeys []byte, detach chan<- struct{}) {
	_, err := io.Copy(to, term.NewEscapeProxy(c.stdin, detachKeys))
	if _, ok := errors.AsType[term.EscapeError](err); ok {
		close(detach)
	}
}

// wait waits for the answer of the background process.
func (p processes) wait(conn *net.UnixConn, req request) (int, error) {
	var a answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return 0, p.c.fail("the double's background process is gone: %v", err)
	}
	if a.Error != "" {
		return p.c.errOCI(fmt.Sprintf("exec %s: %s", req.Path, a.Error))
	}
	return a.Code, nil
}
