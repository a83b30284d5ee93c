package plugin

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/docker/cli/cli/command"

	"github.com/docker-ralph/docker-ralph/projectimage"
)

// progressMode reads --progress; its default gives way to
// BUILDKIT_PROGRESS, as in docker build.
func progressMode(flag string) (projectimage.Mode, error) {
	mode := projectimage.Mode(flag)
	if env := os.Getenv("BUILDKIT_PROGRESS"); mode == projectimage.ModeAuto && env != "" {
		mode = projectimage.Mode(env)
	}
	if !slices.Contains(projectimage.Modes(), mode) {
		return "", fmt.Errorf("unknown progress display %q: use one of %s", mode, strings.Join(modeNames(), ", "))
	}
	return mode, nil
}

func modeNames() []string {
	var names []string
	for _, m := range projectimage.Modes() {
		names = append(names, string(m))
	}
	return names
}

// progressOut is standard error: as the file it is, where that is a terminal.
func progressOut(cli command.Cli) io.Writer {
	if f, ok := cli.Err().File(); ok {
		return f
	}
	return cli.Err()
}
