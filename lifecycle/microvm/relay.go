package microvm

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/budget"
)

var _ lifecycle.Relayer = (*Driver)(nil)

// Relay implements [lifecycle.Relayer] with a client of the program, which is connected by pipes.
func (d *Driver) Relay(ctx context.Context, sb lifecycle.Sandbox, id string) (io.ReadWriteCloser, error) {
	rec, ok := d.ready(sb)
	if !ok {
		return nil, lifecycle.ErrNotPrepared
	}
	c, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := c.command(ctx, d.exec(rec.Name, execOptions{}, d.guestFolder().path(rec.Prepared), "_session", id))
	stderr := budget.NewHead(lifecycle.RelayStderr)
	output, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("running %s: %w", c.cli, err)
	}
	r := &relay{output, stdin, cancel, make(chan struct{})}
	go func() {
		defer close(r.ended)
		err := cmd.Wait()
		_ = w.CloseWithError(lifecycle.RelayEnd(err, stderr.String()))
	}()
	return r, nil
}

// RelaysPeers implements [lifecycle.Relayer]. The agent can become any user of a microVM.
func (d *Driver) RelaysPeers() bool { return false }

// relay is the standard input and output of a client.
type relay struct {
	*io.PipeReader
	io.WriteCloser
	cancel context.CancelFunc
	ended  chan struct{}
}

// Close ends the input of the process, which exits, and then its client.
func (r *relay) Close() error {
	_ = r.WriteCloser.Close()
	defer r.cancel()
	select {
	case <-r.ended:
	case <-time.After(relayGrace):
	}
	return r.PipeReader.Close()
}

// relayGrace is how long a client may take to end by itself.
const relayGrace = time.Second
