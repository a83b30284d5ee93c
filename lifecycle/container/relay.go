package container

import (
	"context"
	"fmt"
	"io"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/budget"
)

var _ lifecycle.Relayer = (*Driver)(nil)

// sessionTmpfs are the options of [wire.SessionDir]: only ralph of the init process's user creates sockets there.
func sessionTmpfs() string {
	return fmt.Sprintf("rw,noexec,nosuid,nodev,size=64k,nr_inodes=1024,mode=755,uid=%[1]d,gid=%[1]d", initUID)
}

// Relay implements [lifecycle.Relayer]. The agent can neither signal nor trace a process of another user.
func (d *Driver) Relay(ctx context.Context, sb lifecycle.Sandbox, id string) (io.ReadWriteCloser, error) {
	program, ok := d.readMarker(sb)
	if !ok {
		return nil, lifecycle.ErrNotPrepared
	}
	made, err := d.API.ExecCreate(ctx, sb.ID, client.ExecCreateOptions{
		User:       initUser,
		Env:        []string{wire.InitEnv + "=1"},
		WorkingDir: "/", // that of the sandbox can be closed to this user
		Cmd:        []string{program.Path(), "_session", id},

		AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, err
	}
	conn, err := engine.Attach(ctx, d.API, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, err
	}
	return newRelay(ctx, conn.HijackedResponse), nil
}

// RelaysPeers implements [lifecycle.Relayer].
func (d *Driver) RelaysPeers() bool { return true }

// relay is the standard input and output of a process.
type relay struct {
	*io.PipeReader
	conn client.HijackedResponse
	stop func() bool
}

func newRelay(ctx context.Context, conn client.HijackedResponse) *relay {
	output, w := io.Pipe()
	go func() {
		stderr := budget.NewHead(lifecycle.RelayStderr)
		err := engine.Demultiplex(w, stderr, conn.Reader)
		_ = w.CloseWithError(lifecycle.RelayEnd(err, stderr.String()))
	}()
	return &relay{output, conn, context.AfterFunc(ctx, conn.Close)}
}

func (r *relay) Write(p []byte) (int, error) { return r.conn.Conn.Write(p) }

// Close ends the input of the process, which exits.
func (r *relay) Close() error {
	r.stop()
	r.conn.Close()
	return r.PipeReader.Close()
}
