// Command ralph-egress is what stands between a sandbox and the network. It runs
// in containers of its own, from an image with nothing else in it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
)

// version is set by the linker: -X main.version=v1.2.3.
var version = "devel"

// streams are the program's.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// subcommand is a part of the program.
type subcommand struct {
	name, summary string
	run           func(ctx context.Context, args []string, std streams) error
}

// subcommands are all parts there are.
func subcommands() []subcommand {
	return []subcommand{
		{"proxy", "let through what the policy on standard input allows", runProxy},
		{"ctl", "ask or change a proxy that runs: policy, stats, allow, deny, routes", runCtl},
		{"hold", "do nothing but keep the network namespace of this container", runHold},
		{"firewall", "close the network namespace that this runs in", runFirewall},
		{"canary", "try the ways out of the network that this runs in", runCanary},
		{"version", "print the version", runVersion},
	}
}

// The proxy is small and short of memory: it rather collects its garbage more
// often than to keep it. In bytes; a container of 256 MiB has room above.
const memoryLimit = 128 << 20

func main() {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(memoryLimit)
	// As the first process of a container it is ended by no signal that it does
	// not handle.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, std streams) error {
	all := subcommands()
	if len(args) > 0 {
		i := slices.IndexFunc(all, func(c subcommand) bool { return c.name == args[0] })
		if i >= 0 {
			return all[i].run(ctx, args[1:], std)
		}
	}
	var lines []string
	for _, c := range all {
		lines = append(lines, fmt.Sprintf("  %-8s %s", c.name, c.summary))
	}
	return fmt.Errorf("usage: ralph-egress SUBCOMMAND\n%s", strings.Join(lines, "\n"))
}

func runVersion(_ context.Context, _ []string, std streams) error {
	_, err := fmt.Fprintln(std.out, version)
	return err
}
