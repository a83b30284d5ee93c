package plugin

import (
	"fmt"
	"io"
	"runtime"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/spf13/cobra"
)

// versionInfo is the version for a template. Its names in JSON are part of the command's interface.
type versionInfo struct {
	noHeader
	Version string `json:"version"`
	Go      string `json:"go"` // the version that compiled it
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func newVersionCommand(dockerCLI command.Cli, version string) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:               "version [OPTIONS]",
		Short:             "Show the docker-ralph version information",
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return writeVersion(dockerCLI.Out(), format, versionInfo{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH})
		},
	}
	addTextFormat(cmd, &format)
	return cmd
}

func writeVersion(out io.Writer, format string, v versionInfo) error {
	if format == "" {
		_, err := fmt.Fprintf(out, "docker-ralph version %s\n", v.Version)
		return err
	}
	return listing[versionInfo]{format: format, row: func(v versionInfo) formatter.SubContext { return v }}.writeEach(out, v)
}
