package sandboxcli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/moby/term"
	"golang.org/x/sys/unix"
)

// Label is on every container of a fake. Its value is the state directory.
const Label = "io.github.docker-ralph-fake"

// agentHome is the home of a sandbox's user (contract 9.3).
const agentHome = "/home/agent"

// containers are sandboxes that are containers of a Docker Engine.
type containers struct{ c *call }

func (m containers) create(r *record) error {
	api, err := m.c.engine()
	if err != nil {
		return err
	}
	defer func() { _ = api.Close() }()
	folder := sha256.Sum256([]byte(m.c.store.dir))
	name := fmt.Sprintf("fake-%x-%s", folder[:6], r.Name)
	var made client.ContainerCreateResult
	for err = errdefs.ErrConflict; errdefs.IsConflict(err); {
		// Left by a fake that was killed before it recorded the sandbox, or still
		// being created for that one.
		_, err = api.ContainerRemove(m.c.ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			return fmt.Errorf("removing what is left of a sandbox: %w", err)
		}
		made, err = m.createNamed(api, name, *r)
	}
	if err != nil {
		return fmt.Errorf("creating a container: %w", err)
	}
	r.Container = made.ID
	if err := m.setUp(api, *r); err != nil {
		return errors.Join(err, m.remove(*r))
	}
	return nil
}

func (m containers) createNamed(api *engine, name string, r record) (client.ContainerCreateResult, error) {
	stopNow := 0
	// By its ID: an engine that lists containers looks up each name.
	image, err := api.ImageInspect(m.c.ctx, r.Template)
	if err != nil {
		return client.ContainerCreateResult{}, err
	}
	return api.ContainerCreate(m.c.ctx, client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{
			Image: image.ID, Hostname: "sandbox", User: "0:0",
			// It reaps what the sandbox's processes leave behind.
			Entrypoint:  []string{"sh", "-c", "while :; do sleep 86400 & wait $!; done"},
			Cmd:         []string{},
			Labels:      map[string]string{Label: m.c.dir},
			StopTimeout: &stopNow,
		},
		HostConfig: &container.HostConfig{Mounts: m.mounts(r)},
	})
}

func (m containers) mounts(r record) []mount.Mount {
	var all []mount.Mount
	bind := func(source, target string, readOnly bool) {
		all = append(all, mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly})
	}
	for _, given := range r.Workspaces {
		path, readOnly := workspace(given)
		bind(path, path, readOnly)
	}
	if disk := m.c.settings.Disk; disk != "" && r.primary() != disk {
		all = append(all, mount.Mount{Type: mount.TypeVolume, Target: disk})
	}
	return all
}

// setUp starts the container and gives it a user "agent" with the caller's
// numbers, so that files land on the host as the host user (contract 9.4).
func (m containers) setUp(api *engine, r record) error {
	if _, err := api.ContainerStart(m.c.ctx, r.Container, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("starting the container: %w", err)
	}
	const script = `set -e
mkdir -p "$3/workspace"
shell=/bin/sh
test ! -x /bin/bash || shell=/bin/bash
for file in passwd group; do
	entry="agent:x:$1:$2::$3:$shell"
	test $file = passwd || entry="agent:x:$2:"
	{ printf '%s\n' "$entry"; grep -v '^agent:' /etc/$file || :; } >/tmp/$file.new
	cat /tmp/$file.new >/etc/$file
	rm /tmp/$file.new
done
chown -R "$1:$2" "$3"`
	var out bytes.Buffer
	args := []string{"sh", "-c", script, "sh", fmt.Sprint(os.Getuid()), fmt.Sprint(os.Getgid()), agentHome}
	id, conn, err := m.attach(api, r.Container, client.ExecCreateOptions{User: "0:0", Cmd: args})
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := stdcopy.StdCopy(&out, &out, conn.Reader); err != nil {
		return fmt.Errorf("setting up the container: %w", err)
	}
	code, _, err := m.exitCode(api, id)
	if err == nil && code != 0 {
		err = fmt.Errorf("setting up the container: exit code %d: %s", code, strings.TrimSpace(out.String()))
	}
	return err
}

func (m containers) start(r record) error {
	api, err := m.c.engine()
	if err != nil {
		return err
	}
	defer func() { _ = api.Close() }()
	if _, err := api.ContainerStart(m.c.ctx, r.Container, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("starting the container: %w", err)
	}
	return nil
}

func (m containers) stop(r record) error {
	api, err := m.c.engine()
	if err != nil {
		return err
	}
	defer func() { _ = api.Close() }()
	now := 0
	_, err = api.ContainerStop(m.c.ctx, r.Container, client.ContainerStopOptions{Timeout: &now})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("stopping the container: %w", err)
	}
	return nil
}

func (m containers) remove(r record) error {
	api, err := m.c.engine()
	if err != nil {
		return err
	}
	defer func() { _ = api.Close() }()
	return removeContainer(m.c.ctx, api.Client, r.Container)
}

func removeContainer(ctx context.Context, api *client.Client, id string) error {
	_, err := api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing the container: %w", err)
	}
	return nil
}

// exec runs a command through the Engine API.
func (m containers) exec(r record, g guest) (int, error) {
	api, err := m.c.engine()
	if err != nil {
		return 0, err
	}
	defer func() { _ = api.Close() }()
	opts := m.options(g)
	if g.detached {
		return 0, m.detached(api, r, opts)
	}
	id, conn, err := m.attach(api, r.Container, opts)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := m.c.share(api); err != nil {
		return 0, err
	}
	if err := m.stream(api, id, conn, g); err != nil {
		return 0, err
	}
	code, begun, err := m.exitCode(api, id)
	if !begun && (code == 126 || code == 127) {
		// The engine writes the reason to stdout, with CRLF. Its code is 126 if the
		// working directory is missing; that of sbx is 127 (MEAS v0.45.1 S21).
		return 127, nil
	}
	return code, err
}

func (m containers) options(g guest) client.ExecCreateOptions {
	opts := client.ExecCreateOptions{
		User: g.user, Privileged: g.privileged, TTY: g.tty, WorkingDir: g.dir, Cmd: g.args,
		Env: append([]string{"HOME=" + agentHome, "USER=agent", "LOGNAME=agent"}, g.env...),
	}
	if opts.User == "" || opts.User == "agent" {
		opts.User = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	}
	if opts.WorkingDir == "" {
		opts.WorkingDir = agentHome + "/workspace" // contract 5.3, for images without a WORKDIR
	}
	if g.tty && !g.detached {
		if size, err := term.GetWinsize(m.c.stdin.Fd()); err == nil {
			opts.ConsoleSize = client.ConsoleSize{Height: uint(size.Height), Width: uint(size.Width)}
		}
	}
	opts.AttachStdin = g.stdin
	return opts
}

func (m containers) detached(api *engine, r record, opts client.ExecCreateOptions) error {
	made, err := api.ExecCreate(m.c.ctx, r.Container, opts)
	if err == nil {
		_, err = api.ExecStart(m.c.ctx, made.ID, client.ExecStartOptions{Detach: true, TTY: opts.TTY})
	}
	if err != nil {
		return fmt.Errorf("running %q: %w", opts.Cmd[0], err)
	}
	return nil
}

func (m containers) attach(api *engine, id string, opts client.ExecCreateOptions) (string, client.HijackedResponse, error) {
	opts.AttachStdout, opts.AttachStderr = true, true
	made, err := api.ExecCreate(m.c.ctx, id, opts)
	if err != nil {
		return "", client.HijackedResponse{}, fmt.Errorf("running %q: %w", opts.Cmd[0], err)
	}
	res, err := api.ExecAttach(m.c.ctx, made.ID, client.ExecAttachOptions{TTY: opts.TTY, ConsoleSize: opts.ConsoleSize})
	if err != nil {
		return "", client.HijackedResponse{}, fmt.Errorf("running %q: %w", opts.Cmd[0], err)
	}
	return made.ID, res.HijackedResponse, nil
}

// stream carries input and output until the command ends or the user detaches.
func (m containers) stream(api *engine, id string, conn client.HijackedResponse, g guest) error {
	detach := make(chan struct{})
	if g.tty {
		restore, err := m.c.raw()
		if err != nil {
			return err
		}
		defer restore()
		go m.followSize(api, id)
	}
	if g.stdin {
		go func() {
			if g.tty {
				m.c.keys(conn.Conn, g.detachKeys, detach)
			} else {
				_, _ = io.Copy(conn.Conn, m.c.stdin)
			}
			_ = conn.CloseWrite()
		}()
	}
	output := make(chan error, 1)
	go func() {
		var err error
		if g.tty {
			_, err = io.Copy(m.c.stdout, conn.Reader)
		} else {
			_, err = stdcopy.StdCopy(m.c.stdout, m.c.stderr, conn.Reader)
		}
		output <- err
	}()
	select {
	case err := <-output:
		return err
	case <-detach:
		// The engine detaches at the end of the input; on old engines, a broken
		// connection would end the terminal.
		select {
		case <-output: //nolint:errcheck // it is cut off, and that is meant
		case <-time.After(5 * time.Second):
		}
		return m.c.errDetached()
	}
}

func (m containers) followSize(api *engine, id string) {
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, unix.SIGWINCH)
	sizes <- unix.SIGWINCH
	for range sizes {
		size, err := term.GetWinsize(m.c.stdin.Fd())
		if err != nil {
			return
		}
		opts := client.ExecResizeOptions{Height: uint(size.Height), Width: uint(size.Width)}
		// The process may not have started yet.
		for range 10 {
			if _, err := api.ExecResize(m.c.ctx, id, opts); err == nil {
				break
			}
			<-time.After(20 * time.Millisecond)
		}
	}
}

// exitCode waits for the exit code of a command, which can be later than the end of its
// output. It also reports whether the command has started.
func (m containers) exitCode(api *engine, id string) (code int, begun bool, err error) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		res, err := api.ExecInspect(m.c.ctx, id, client.ExecInspectOptions{})
		if errdefs.IsNotFound(err) || err == nil && res.Running && time.Now().After(deadline) {
			return 137, true, nil // the sandbox was stopped or removed
		}
		if err != nil {
			return 0, true, fmt.Errorf("asking how the command has ended: %w", err)
		}
		if !res.Running {
			return res.ExitCode, res.PID != 0, nil
		}
		<-time.After(2 * time.Millisecond)
	}
}
