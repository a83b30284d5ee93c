//go:build unix

package notify

import (
	"context"
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(deliverEnv) != "" {
		if err := Deliver(context.Background(), os.Args[len(os.Args)-1], ""); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "Error: "+err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
