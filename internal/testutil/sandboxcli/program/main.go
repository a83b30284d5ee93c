// Command program is the fake of two CLIs: linked as sbx it is sbx, linked
// as docker-sandbox it is the Docker CLI's plugin of that name.
package main

import (
	"context"
	"os"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
)

func main() {
	ctx := context.Background()                                           //nolint:forbidigo // here the process begins
	os.Exit(sandboxcli.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)) //nolint:forbidigo // and here it ends
}
