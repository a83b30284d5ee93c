package host

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

type terminal struct{ lifecycle.Terminal }

func TestSlowWorkIsReported(t *testing.T) {
	for _, tc := range []struct {
		name     string
		terminal lifecycle.Terminal
		took     time.Duration
		want     string
	}{
		{name: "fast", took: slowAfter / 2},
		{name: "slow", took: slowAfter * 5 / 2, want: "Fetching\n"},
		{name: "fast at a terminal", terminal: terminal{}, took: slowAfter / 2},
		{name: "slow at a terminal", terminal: terminal{}, took: slowAfter * 5 / 2, want: "\r\x1b[KFetching (1s)\r\x1b[KFetching (2s)\r\x1b[K"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				done := Host{Stderr: &stderr, Terminal: tc.terminal}.ReportSlow("Fetching")
				<-time.After(tc.took)
				done()
				assert.Equal(t, stderr.String(), tc.want)
			})
		})
	}
}
