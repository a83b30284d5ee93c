package commits

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// processing is a sandbox whose scripts read their input, and process it for a while.
type processing struct {
	lifecycle.Driver
	time time.Duration
}

func (d processing) Exec(ctx context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	if _, err := io.Copy(io.Discard, p.Stdin); err != nil {
		return 0, err
	}
	select {
	case <-time.After(d.time):
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A script that hangs is an error of its own: after one of a lost connection, it would be
// repeated forever. The more was sent, the longer may git take.
func TestHangingScriptIsAbandoned(t *testing.T) {
	t.Parallel()
	const sent = 64 << 20
	for _, tc := range []struct {
		name  string
		time  time.Duration
		hangs bool
	}{
		{"slow", FetchTimeout + sent/processRate*time.Second - time.Second, false},
		{"hanging", time.Hour, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := Shell(processing{time: tc.time}, lifecycle.Sandbox{Name: "ralph-test"})(t.Context(), "", nil, io.LimitReader(zeros{}, sent), io.Discard)
				if !tc.hangs {
					assert.NilError(t, err)
					return
				}
				assert.Error(t, err, "git in sandbox ralph-test hangs: no data for 6m4s")
				assert.Equal(t, time.Since(began), 364*time.Second)
			})
		})
	}
}
