package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/mirror"
)

const (
	// mirrorPoll is the interval of looking for changes.
	mirrorPoll = 200 * time.Millisecond
	// mirrorTimeout is how long the host may send no request: it has disconnected, and this
	// side has not noticed.
	mirrorTimeout = time.Minute
)

// runMirror copies logs of loops from or to the clone in the current directory. "send" reads a
// [mirror.Hello] and sends what has changed. If it follows, each further line is the number of a
// pass that the host requests; it ends with the input. "receive" prints what is here, and reads
// frames.
func runMirror(ctx context.Context, stdin io.Reader, s streams, args []string) error {
	top, err := os.Getwd()
	switch {
	case len(args) != 1:
		return errUsage
	case err != nil:
		return fmt.Errorf("finding the clone: %w", err)
	case args[0] == "send":
		return sendLogs(ctx, top, stdin, s.stdout)
	case args[0] == "receive":
		return receiveLogs(top, stdin, s.stdout)
	}
	return errUsage
}

func sendLogs(ctx context.Context, top string, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	has, err := mirror.ReadHello(in)
	if err != nil {
		return err
	}
	source := mirror.NewSource(top, has, stdout)
	if !has.Follow {
		return source.Pass(false, 1)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(mirrorTimeout, func() { cancel(errors.New("the host sends no requests")) })
	defer silence.Stop()
	requests := make(chan uint64)
	go func() {
		cancel(readRequests(ctx, in, requests, func() { silence.Reset(mirrorTimeout) }))
	}()
	sent := make(chan error, 1) // a write blocks while the host does not read
	go func() { sent <- followLogs(ctx, source, requests) }()
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		if err := context.Cause(ctx); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	}
}

// readRequests reads requests until the input ends.
func readRequests(ctx context.Context, in *bufio.Reader, requests chan<- uint64, alive func()) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.ParseUint(strings.TrimSpace(lines.Text()), 10, 64)
		if err != nil {
			return fmt.Errorf("reading a request of the host: %w", err)
		}
		alive()
		select {
		case requests <- n:
		case <-ctx.Done():
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the requests of the host: %w", err)
	}
	return io.EOF
}

// followLogs sends changes. The first pass is requested as well.
func followLogs(ctx context.Context, source *mirror.Source, requests <-chan uint64) error {
	tick := time.NewTicker(mirrorPoll)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case n := <-requests:
			err = source.Pass(false, n)
		case <-tick.C:
			err = source.Pass(true, 0)
		}
		if err != nil {
			return fmt.Errorf("sending logs: %w", err)
		}
	}
}

// receiveLogs writes the logs of loops that are not here completely.
func receiveLogs(top string, stdin io.Reader, stdout io.Writer) error {
	sink, err := mirror.OpenSink(top, nil)
	if err != nil {
		return err
	}
	defer sink.Close()
	has := sink.Complete()
	sink.Accept = func(loop string) bool { return !has[loop] }
	if err := mirror.WriteHello(stdout, mirror.Hello{Files: sink.Files()}); err != nil {
		return err
	}
	in := bufio.NewReader(stdin)
	for {
		h, payload, err := mirror.ReadFrame(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = sink.Apply(h, payload)
		}
		if err != nil {
			return err
		}
	}
}
