package backlog

import (
	"context"
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	os.Exit(m.Run())
}

// playRole is the main function of a child process.
func playRole(role string) int {
	ctx := context.Background()
	if role == "work" {
		fmt.Fprint(os.Stderr, ready) // from here on it may be killed
	}
	s, err := Open(ctx, os.Getenv("BACKLOG_TEST_PATH"), testScope())
	if err == nil {
		err = perform(ctx, s, role)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
