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
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/plugin"
	"github.com/docker-ralph/docker-ralph/plugin/metadata"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// collectAt is GOGC in percent. Most commands exit before the first collection; with the
// default they would collect once or twice for nothing.
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
	// Report errors of telemetry with "docker -D" only.
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
	return exitCode(plugin.DiskError(lifecycle.ExplainUnreachable(plugin.UsageError(err))), dockerCLI.Err())
}

// exitCode prints an error and returns its exit code. A command in the sandbox has
// printed its own error: its code has no text.
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
	// Names in it can come from a repository or an agent.
	hint.Print(termsafe.NewWriter(stderr), err)
	return code
}

// standaloneArgs makes "docker-ralph build" mean "docker ralph build", by adding the
// plugin's name as the Docker CLI does, and completes it.
func standaloneArgs(args []string) []string {
	if !cliplugin.RunningStandalone() {
		return args
	}
	completes := len(args) > 2 && (args[1] == cobra.ShellCompRequestCmd || args[1] == cobra.ShellCompNoDescRequestCmd)
	switch {
	case completes && args[2] != "ralph":
		return slices.Insert(slices.Clone(args), 2, "ralph")
	case completes || slices.Contains(args[1:], "ralph"):
		return args
	}
	return slices.Insert(slices.Clone(args), 1, "ralph")
}

// buildVersion returns the version of a program built without the Makefile.
func buildVersion() string {
	if info, ok := runtimedebug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
