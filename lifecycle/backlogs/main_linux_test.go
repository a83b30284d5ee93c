package backlogs

import (
	"context"
	"os"
	"testing"

	"github.com/docker-ralph/docker-ralph/ralph/cli"
)

// asProgram is the variable that makes the test binary act as ralph.
const asProgram = "RALPH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Run(context.Background(), os.Args, cli.Options{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	os.Exit(m.Run())
}
