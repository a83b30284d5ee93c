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

	_ "golang.org/x/crypto/x509roots/fallback" // the image has no file with authorities

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/egress/proxy"
)

// maxStart bounds what is read from standard input, in bytes.
const maxStart = 4 << 20

// runProxy waits for the start message, one line on standard input, and serves.
// Until then, and after anything goes wrong, nothing listens and the sandbox
// reaches nothing. Standard input may stay open: what follows is not read.
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
	listeners, err := proxy.Listen(ctx, start.Address)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(std.out).Encode(egress.Ready{Ready: true, Address: start.Address}); err != nil {
		listeners.Close()
		return fmt.Errorf("saying that the proxy is ready: %w", err)
	}
	return server.Serve(ctx, listeners)
}

func newServer(start egress.Start, log io.Writer) (*proxy.Server, error) {
	own, err := ownAddresses()
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // those of the start message may be enough
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
		return nil, fmt.Errorf("looking up the proxy's own addresses: %w", err)
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

// readLine gives up when the context ends, although the read does not. What was
// read may hold keys, so no error has it.
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
		return nil, errors.New("ended before it came")
	case r := <-read:
		if r.err != nil {
			return nil, errors.New("standard input ended before a whole line")
		}
		return r.line, nil
	}
}
