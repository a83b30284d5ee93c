// Command ralph plans and builds with a coding agent, one task at a time, in a sandbox
// of docker-ralph or on a host.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/cli"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
)

// version is set by the linker: -X main.version=v1.2.3.
var version string

func main() {
	if err := guest.Protect(os.Args); err != nil {
		hint.Print(os.Stderr, err)
		os.Exit(1)
	}
	guest.SetUmask()
	args := guest.Arguments(os.Args)
	guest.SetDefaults()
	guest.EnterSubdir()
	if err := guest.AwaitInit(context.Background()); err != nil {
		hint.Print(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Run(context.Background(), args, cli.Options{
		Version: programVersion(),
		Hidden:  guest.Commands(os.Stderr),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
	}))
}

// programVersion falls back to the version recorded by the Go toolchain.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
