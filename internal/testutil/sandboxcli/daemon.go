package sandboxcli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// daemonVerb is the hidden verb of the background process.
const daemonVerb = "_daemon"

// daemonEnv marks the background process, for ending it.
const daemonEnv = "SANDBOX_DOUBLE_DAEMON"

// The background process inherits these from the client that starts it.
const (
	lockFD   = 3
	listenFD = 4
)

// socketIn is the path of the background process's socket, by a descriptor of its
// directory, because socket paths must be short.
func socketIn(folder *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/socket", folder.Fd()) }

// ensureDaemon starts the background process unless it runs. It passes it its lock and a
// listening socket, so that nothing has to wait for it.
func (c *call) ensureDaemon() error {
	unlock, err := c.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	lock, err := os.OpenFile(c.store.path("daemon.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("starting the fake's background process: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil //nolint:nilerr // it runs
	}
	if err := c.spawnDaemon(lock); err != nil {
		return fmt.Errorf("starting the fake's background process: %w", err)
	}
	return nil
}

func (c *call) spawnDaemon(lock *os.File) error {
	if err := os.Remove(c.store.path("socket")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	folder, err := os.Open(c.store.dir)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketIn(folder), Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	defer func() { _ = listener.Close() }()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: self, Args: []string{string(c.cli), daemonVerb}, Dir: "/",
		Env:         []string{DirEnv + "=" + c.dir, daemonEnv + "=" + c.dir, "PATH=" + os.Getenv("PATH")},
		ExtraFiles:  []*os.File{lock, socket},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	return cmd.Start()
}

// dialDaemon connects to the background process.
func (c *call) dialDaemon() (*net.UnixConn, error) {
	folder, err := os.Open(c.store.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socketIn(folder), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("reaching the fake's background process: %w", err)
	}
	return conn, nil
}

// daemon is the background process: it runs commands in process mode, and
// stops unused sandboxes.
func (c *call) daemon() error {
	lock := os.NewFile(lockFD, "lock")
	socket := os.NewFile(listenFD, "socket")
	if lock == nil || socket == nil {
		return c.fail("%s is for the fake itself", daemonVerb)
	}
	syscall.CloseOnExec(lockFD)
	listener, err := net.FileListener(socket)
	if err != nil {
		return err
	}
	_ = socket.Close()
	unixListener, ok := listener.(*net.UnixListener)
	if !ok {
		return c.fail("%s is for the fake itself", daemonVerb)
	}
	var s server
	go s.serve(unixListener)
	defer s.drain()
	w := watcher{call: c, lock: lock, used: map[string]time.Time{}}
	return w.run()
}

// watcher stops unused sandboxes.
type watcher struct {
	*call
	lock *os.File
	used map[string]time.Time // when a session was last seen, by sandbox
}

func (w watcher) run() error {
	home, err := os.Stat(w.store.dir)
	if err != nil {
		return err
	}
	for {
		if now, err := os.Stat(w.store.dir); err != nil || !os.SameFile(home, now) {
			return w.cleanUp()
		}
		var now Settings
		if now, err = Load(w.dir); err == nil && exists(settingsPath(w.dir)) {
			w.settings = now
			if w.cli == sbx && w.settings.Faults.VanishOnSleep {
				err = w.vanish()
			}
		}
		if err == nil {
			_ = w.tick() // what fails is tried again
		}
		if w.finished() {
			return nil
		}
		<-time.After(min(max(w.idle()/20, 5*time.Millisecond), time.Second))
	}
}

// cleanUp ends all processes when the directory was removed: then the test is over.
func (w watcher) cleanUp() error {
	err := killBelow(w.store.dir)
	if w.settings.Mode == ModeContainer && w.settings.Engine != "" {
		err = errors.Join(err, purgeContainers(w.ctx, w.settings.Engine, w.dir))
	}
	return err
}

// idle is after how long without a session a sandbox is stopped.
func (c *call) idle() time.Duration {
	if c.settings.Idle > 0 {
		return time.Duration(c.settings.Idle)
	}
	if c.cli == plugin {
		return 30 * time.Minute // ISSUE desktop-feedback #232
	}
	return 30 * time.Second // MEAS v0.45.1 S21, a maintainer in #452
}

func (w watcher) tick() error {
	all, err := w.store.list()
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Status != running || !w.unused(r) {
			continue
		}
		if err := w.stopUnused(r.Name); err != nil {
			return err
		}
	}
	return nil
}

// unused reports whether a sandbox has been unused for long enough. With the
// plugin, only interactive sessions are use: that others are not is ISSUE
// desktop-feedback #232, and that interactive ones are is ?.
func (w watcher) unused(r record) bool {
	if r.Pinned {
		return false
	}
	sessions, interactive, err := w.store.sessions(r.Name)
	if w.cli == plugin {
		sessions = interactive
	}
	if err != nil || sessions > 0 {
		w.used[r.Name] = time.Now()
		return false
	}
	since := r.IdleSince
	if used := w.used[r.Name]; used.After(since) {
		since = used
	}
	return time.Since(since) >= w.idle()
}

func (w watcher) stopUnused(name string) error {
	unlock, err := w.store.lockSandbox(name)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok, err := w.store.load(name)
	if err != nil || !ok || r.Status != running || !w.unused(r) {
		return err
	}
	return w.halt(r)
}

// finished reports whether nothing is left to watch, and if so releases the
// watcher's lock while no sandbox can start.
func (w watcher) finished() bool {
	unlock, err := w.store.lock()
	if err != nil {
		return false
	}
	defer unlock()
	all, err := w.store.list()
	if err != nil {
		return false
	}
	for _, r := range all {
		if r.Status == running {
			return false
		}
	}
	_ = w.lock.Close()
	return true
}

// request is a command for the background process, with descriptors:
// stdin, stdout, stderr and the other ends of the last two, or a terminal and
// its master.
type request struct {
	Path     string   `json:"path"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	TTY      bool     `json:"tty"`
	Detached bool     `json:"detached"`
	// Hold runs no command: the only descriptor is a connection to an engine, which
	// stays open after the exit of the client.
	Hold bool `json:"hold"`
}

// answer is sent when a command has ended, or has started detached.
type answer struct {
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"`
}

// send sends a request with its descriptors.
func send(conn *net.UnixConn, req request, files ...*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	return sendFDs(conn, req, fds...)
}

func sendFDs(conn *net.UnixConn, req request, fds ...int) error {
	if _, _, err := conn.WriteMsgUnix([]byte{'\n'}, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("reaching the fake's background process: %w", err)
	}
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return fmt.Errorf("reaching the fake's background process: %w", err)
	}
	return nil
}
