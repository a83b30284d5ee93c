//go:build linux

// Command program runs the probes of package abuse, and is what they use for
// what a shell cannot do. Such a command exits with 0 if there is a way, with 1
// if there is none, and with 3 if it could not be tried.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/docker-ralph/docker-ralph/e2e/abuse/server"
)

// errClosed says that there is no way.
type closedError struct{ why string }

func (e closedError) Error() string { return e.why }

func closed(err error) error { return closedError{err.Error()} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM) //nolint:forbidigo // here the process begins
	err := do(ctx, os.Args[1:])
	stop()
	if err == nil {
		return
	}
	_, _ = fmt.Fprintln(os.Stdout, err)
	var c closedError
	if errors.As(err, &c) {
		os.Exit(1) //nolint:forbidigo // and here it ends
	}
	os.Exit(3) //nolint:forbidigo // or here
}

func do(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("nothing to do")
	}
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch args[0] {
	case "run":
		return runAll(ctx, os.Stdout, args[1:])
	case "serve":
		if err := server.Serve(ctx, arg(1)); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	case "tcp", "mptcp":
		return tcp(ctx, args[0], arg(1), arg(2))
	case "udp":
		return udp(ctx, arg(1), arg(2), arg(3))
	case "fastopen":
		return fastOpen(arg(1), arg(2))
	case "icmp":
		return icmp(arg(1))
	case "dns":
		return dns(ctx, arg(1), arg(2), arg(3), arg(4))
	case "say":
		return say(ctx, arg(1), arg(2), arg(3))
	case "flood":
		return flood(ctx, arg(1), arg(2))
	case "tls":
		return throughTLS(ctx, tlsAttempt{proxy: arg(1), connect: arg(2), to: arg(3), sni: arg(4), split: arg(5) == "split"})
	case "call":
		return call(arg(1))
	case "socket":
		return socket(arg(1), arg(2), arg(3))
	case "capable":
		return capable(arg(1))
	case "mode":
		return setMode(arg(1))
	case "allocate":
		return allocate(arg(1))
	case "flush":
		return flush()
	case "route":
		return route()
	}
	return fmt.Errorf("%q is nothing that can be done", args[0])
}
