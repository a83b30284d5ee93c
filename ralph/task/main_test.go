package task

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ralph": ralph})
}

// ralph is the program of the scripts: "ralph task ...".
func ralph() {
	if len(os.Args) < 2 || os.Args[1] != "task" {
		_, _ = os.Stderr.WriteString("unknown command: want \"ralph task\"\n")
		os.Exit(99)
	}
	os.Exit(Run(context.Background(), os.Args[2:], IO{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Hints: os.Getenv("RALPH_CONFIG") != "",
	}))
}
