package commits

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

func TestSendingIsReported(t *testing.T) {
	type terminal struct{ lifecycle.Terminal }
	for _, tc := range []struct {
		name     string
		terminal lifecycle.Terminal
		took     time.Duration // for two million bytes
		size     int64         // as estimated; 0 for an error
		err      error
		want     string
	}{
		{name: "fast", took: time.Second, size: 2e6},
		{name: "slow", took: 8 * time.Second, size: 2e6, want: "Sending commits to sandbox box: 500kB (250kB/s)\n" +
			"Sending commits to sandbox box: 1MB (250kB/s)\nSending commits to sandbox box: 1.5MB (250kB/s)\nSending commits to sandbox box: 2MB (250kB/s)\n"},
		{name: "fast at a terminal", terminal: terminal{}, took: 500 * time.Millisecond, size: 2e6},
		{
			name: "slow at a terminal", terminal: terminal{}, took: 2 * time.Second, size: 3e6,
			want: "\r\x1b[KSending commits 1MB  1MB/s" +
				"\r\x1b[KSending commits [=========>               ]  41%  1.25MB/3MB  1MB/s" +
				"\r\x1b[KSending commits [============>            ]  50%  1.5MB/3MB  1MB/s" +
				"\r\x1b[KSending commits [=============>           ]  58%  1.75MB/3MB  1MB/s" +
				"\r\x1b[KSending commits [===============>         ]  66%  2MB/3MB  1MB/s" +
				"\r\x1b[KSending commits [========================>] 100%  2MB/2MB  1MB/s\n",
		},
		{
			name: "more than estimated, and an error", terminal: terminal{}, took: 1500 * time.Millisecond, size: 1e6, err: errors.New("no connection"),
			want: "\r\x1b[KSending commits 1.5MB  1.333MB/s" +
				"\r\x1b[KSending commits [=======================> ]  99%  2MB/2MB  1.333MB/s\n",
		},
		{
			name: "no estimate", terminal: terminal{}, took: 1200 * time.Millisecond,
			want: "\r\x1b[KSending commits 1.75MB  1.667MB/s\r\x1b[KSending commits [========================>] 100%  2MB/2MB  1.667MB/s\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				to, end := progress(host.Host{Stderr: &stderr, Terminal: tc.terminal}, "box")(io.Discard, func() (int64, error) {
					if tc.size == 0 {
						return 0, errors.New("an old git")
					}
					return tc.size, nil
				})
				const writes = 8
				for range writes {
					<-time.After(tc.took / writes)
					_, err := to.Write(make([]byte, 2e6/writes))
					assert.NilError(t, err)
				}
				end(tc.err)
				assert.Equal(t, stderr.String(), tc.want)
			})
		})
	}
}
