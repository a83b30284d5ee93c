// Command ralph-egress is the proxy, the firewall and the canary of sandboxes. It runs in
// separate containers, from an image with nothing else in it.
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

// streams are the standard streams.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// subcommand is one command of the program.
type subcommand struct {
	name, summary string
	run           func(ctx context.Context, args []string, std streams) error
}

// subcommands returns all commands.
func subcommands() []subcommand {
	return []subcommand{
		{"proxy", "let through what the policy on standard input allows", runProxy},
		{"ctl", "ask or change a proxy that runs: policy, stats, allow, deny, routes", runCtl},
		{"canary", "check the isolation of the network that this runs in", runCanary},
		{"version", "print the version", runVersion},
	}
}

// memoryLimit is the soft memory limit in bytes, below the 256 MiB of the container.
const memoryLimit = 128 << 20

func main() {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(memoryLimit)
	// PID 1 must handle signals to be ended by them.
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
