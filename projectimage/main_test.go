package projectimage

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/moby/moby/client"
)

// roleVariable makes the test binary play another process.
const roleVariable = "RALPH_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "ensure":
		os.Exit(ensureProcess())
	case "registry":
		os.Exit(registryProcess(context.Background()))
	default:
		flag.Parse()
		if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
			_ = f.Value.Set(fmt.Sprint(3 * runtime.GOMAXPROCS(0))) // nearly all of the time is spent waiting for engines
		}
		os.Exit(m.Run())
	}
}

// ensureProcess is another docker ralph in need of the shell image on the base
// in RALPH_TEST_BASE, and of the layer of the project in RALPH_TEST_PROJECT if
// there is one. It prints whether it built it.
func ensureProcess() int {
	c, err := client.New(client.WithHost(os.Getenv("DOCKER_HOST")))
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	b := &Builder{Engine: c, LockDir: os.Getenv("RALPH_TEST_LOCKS"), Progress: Progress{Mode: ModePlain, Out: os.Stderr}}
	req := Request{Agent: "shell", Base: os.Getenv("RALPH_TEST_BASE")}
	if root := os.Getenv("RALPH_TEST_PROJECT"); root != "" {
		project, _, err := FindProject(context.Background(), root)
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return 1
		}
		project.Approved = true
		req.Project = &project
	}
	image, err := b.Ensure(context.Background(), req)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = fmt.Println(image.Built)
	return 0
}
