package cli

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
)

// asProgram is the variable that makes the test binary act as ralph.
const asProgram = "RALPH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Run(context.Background(), os.Args, Options{
			Version: "v1.2.3",
			Hidden:  map[string]func([]string) int{"_count": func(args []string) int { return len(args) }},
			Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		}))
	}
	flag.Parse()
	// The slowest tests only wait.
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(fmt.Sprint(2 * runtime.GOMAXPROCS(0)))
	}
	if signal.Ignored(syscall.SIGHUP) { // nohup runs the tests, and all that they start would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(m.Run())
}
