// Command docker-ralph is the Docker CLI plugin behind "docker ralph".
package main

import (
	"context"
	"errors"
	"io"
	"os"
	runtimedebug "runtime/debug"
	"slices"

	"github.com/docker/cli/cli"
	cliplugin "github.com/docker/cli/cli-plugins/plugin"
	"github.com/docker/cli/cli/command"
	"github.com/docker/cli/cli/debug"
	"go.opentelemetry.io/otel"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/plugin"
	"github.com/docker-ralph/docker-ralph/plugin/metadata"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// collectAt has garbage collected when the heap has grown by so many per cent. Most
// commands end before; by default they collect once or twice, for nothing.
const collectAt = 400

func main() {
	if os.Getenv("GOGC") == "" {
		runtimedebug.SetGCPercent(collectAt)
	}
	os.Args = standaloneArgs(os.Args)
	os.Exit(run())
}

func run() int {
	version := metadata.Version
	if version == "" {
		version = buildVersion()
	}
	// What goes wrong with telemetry is for "docker -D" only.
	otel.SetErrorHandler(debug.OTELErrorHandler)
	dockerCLI, err := command.NewDockerCli(command.WithUserAgent("docker-ralph/" + version))
	if err != nil {
		return exitCode(err, os.Stderr)
	}
	interrupts := plugin.NewInterrupts(context.Background(), os.Exit)
	root := plugin.NewRootCommand(dockerCLI, interrupts, version)
	err = cliplugin.RunPlugin(dockerCLI, root, metadata.Of(version))
	if interrupts.Explain(err) {
		return plugin.ExitCode
	}
	return exitCode(plugin.DiskError(plugin.FlagError(err)), dockerCLI.Err())
}

// exitCode is the one place where errors become exit codes. A command in the
// sandbox has said itself what went wrong: its code comes without a text.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) {
		return plugin.ExitCode
	}
	code := 1
	if status, ok := errors.AsType[cli.StatusError](err); ok {
		if status.StatusCode != 0 {
			code = status.StatusCode
		}
		if err.Error() == "" || status.Status == "" && status.Cause == nil {
			return code
		}
	}
	// Names in it can be a repository's or an agent's.
	hint.Print(termsafe.NewWriter(stderr), err)
	return code
}

// standaloneArgs lets "docker-ralph build" mean "docker ralph build". The
// Docker CLI puts the plugin's name after its own options; a user who calls
// the file does not.
func standaloneArgs(args []string) []string {
	ours := []string{"ralph", "__complete", "__completeNoDesc"}
	if !cliplugin.RunningStandalone() || slices.ContainsFunc(args[1:], func(a string) bool { return slices.Contains(ours, a) }) {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, "ralph")
}

// buildVersion is the version of a program that was built without the
// Makefile.
func buildVersion() string {
	if info, ok := runtimedebug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
