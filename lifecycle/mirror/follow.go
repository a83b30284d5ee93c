package mirror

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	wiremirror "github.com/docker-ralph/docker-ralph/wire/mirror"
)

const (
	// pauseMin and pauseMax bound the pause before a connection is tried again.
	pauseMin = 500 * time.Millisecond
	pauseMax = 5 * time.Second
	// lastTimeout bounds the last pass.
	lastTimeout = 5 * time.Second
)

// errHeld means that another process is copying the logs.
var errHeld = errors.New("another process is copying the logs")

// Follow copies the logs of a running clone sandbox into its worktree while they grow, until stop
// is called, which copies the rest. It reconnects after errors, and does nothing for other
// sandboxes. Canceling ctx does not stop it.
func Follow(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox) (stop func()) {
	if !sb.Clone {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &follower{logs: newLogs(h, driver, sb), stopping: make(chan struct{})}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.run(ctx)
	}()
	return sync.OnceFunc(func() {
		defer cancel()
		close(f.stopping)
		select {
		case <-stopped:
		case <-time.After(lastTimeout):
			cancel()
			<-stopped
		}
	})
}

// follower follows logs until it is stopped.
type follower struct {
	*logs
	stopping chan struct{}
	diverges int // in a row
}

// run connects, again after errors, until the follower is stopped.
func (f *follower) run(ctx context.Context) {
	pause := pauseMin
	for {
		began := time.Now()
		err := f.follow(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if _, diverged := errors.AsType[*wiremirror.DivergedError](err); diverged && f.diverges < divergedMax {
			f.diverges++
			continue
		}
		f.diverges = 0
		if errors.Is(err, errHeld) || time.Since(began) > pauseMax {
			pause = pauseMin
		}
		if !errors.Is(err, errHeld) {
			f.host.ReportDebug(fmt.Sprintf("following the logs of %s: %v", f.sb.Name, err))
		}
		select {
		case <-f.stopping:
			now := time.Now()
			if err := f.finish(ctx, now, now.Add(lastTimeout)); err != nil {
				f.host.ReportDebug(err.Error())
			}
			return
		case <-time.After(pause):
			pause = min(2*pause, pauseMax)
		}
	}
}

// follow copies until the follower is stopped, which returns nil, or the connection breaks.
func (f *follower) follow(ctx context.Context) error {
	unlock, err := f.tryLock()
	if err != nil {
		return err
	}
	if unlock == nil {
		return errHeld
	}
	defer unlock()
	defer f.touch(time.Unix(0, 0)) // nothing follows
	r, err := f.receiver()
	if err != nil {
		return err
	}
	defer r.close()
	stdin, requests := io.Pipe()
	synced := make(chan uint64, 64)
	finished := make(chan error, 1)
	hello := r.hello(true)
	connected, disconnect := context.WithCancel(ctx)
	defer disconnect()
	go func() {
		err := f.request(connected, requests, hello, synced)
		_ = requests.Close()
		finished <- err
	}()
	err = f.connect(ctx, stdin, "send", func(in *bufio.Reader, _ func()) error {
		return r.read(in, func(request uint64) {
			f.diverges = 0
			if request == 0 {
				return
			}
			f.touch(time.Now())
			select {
			case synced <- request:
			default: // too many answers
			}
		})
	})
	disconnect()
	if requested := <-finished; requested == nil {
		return nil // everything was copied
	} else if err == nil {
		err = requested
	}
	return err
}

// request requests passes at intervals, and the last one when the follower is stopped. It returns
// nil after that was answered.
func (f *follower) request(ctx context.Context, to io.Writer, hello wiremirror.Hello, synced <-chan uint64) error {
	if err := wiremirror.WriteHello(to, hello); err != nil {
		return err
	}
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	stopping, last := f.stopping, uint64(0)
	for n := uint64(1); ; {
		if _, err := fmt.Fprintln(to, n); err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case answered := <-synced:
				if last > 0 && answered >= last {
					return nil
				}
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
				waiting = false
			case <-stopping:
				stopping, last, waiting = nil, n+1, false
			}
		}
		n++
	}
}
