package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	_ "golang.org/x/crypto/x509roots/fallback" // the image has no certificates

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/egress/proxy"
)

// maxStart bounds what is read from standard input, in bytes.
const maxStart = 4 << 20

// runProxy reads the start message, one line on standard input, and serves. Until then,
// and after an error, nothing listens. The rest of standard input is not read.
func runProxy(ctx context.Context, args []string, std streams) error {
	if len(args) > 0 {
		return errors.New("usage: ralph-egress proxy < START")
	}
	start, err := readStart(ctx, std.in)
	if err != nil {
		return err
	}
	server, err := newServer(start, std.out)
	if err != nil {
		return err
	}
	listeners, err := listen(ctx, start)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(std.out).Encode(egress.Ready{Ready: true, Address: start.Address}); err != nil {
		listeners.Close()
		return fmt.Errorf("reporting that the proxy is ready: %w", err)
	}
	return server.Serve(ctx, listeners)
}

func listen(ctx context.Context, start egress.Start) (*proxy.Listeners, error) {
	if start.Sockets != "" {
		return proxy.ListenSockets(ctx, start.Sockets)
	}
	return proxy.Listen(ctx, start.Address)
}

func newServer(start egress.Start, log io.Writer) (*proxy.Server, error) {
	own, err := ownAddresses()
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // those of the start message may suffice
	}
	return proxy.New(proxy.Config{
		Start:   start,
		Log:     log,
		Dial:    proxy.Dialer(nil),
		Resolve: proxy.Resolve,
		Roots:   roots,
		Own:     own,
	})
}

func ownAddresses() ([]netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing the proxy's addresses: %w", err)
	}
	var own []netip.Addr
	for _, addr := range addrs {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil {
			own = append(own, prefix.Addr())
		}
	}
	return own, nil
}

func readStart(ctx context.Context, in io.Reader) (egress.Start, error) {
	line, err := readLine(ctx, in)
	if err != nil {
		return egress.Start{}, fmt.Errorf("reading the start message: %w", err)
	}
	return egress.ReadStart(line)
}

// readLine returns when ctx ends, although the read continues. Errors do not contain the
// input, which can have keys.
func readLine(ctx context.Context, in io.Reader) ([]byte, error) {
	type result struct {
		line []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := bufio.NewReaderSize(io.LimitReader(in, maxStart), 64<<10).ReadBytes('\n')
		read <- result{line, err}
	}()
	select {
	case <-ctx.Done():
		return nil, errors.New("canceled")
	case r := <-read:
		if r.err != nil {
			return nil, errors.New("unexpected end of standard input")
		}
		return r.line, nil
	}
}
