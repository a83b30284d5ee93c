package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
)

// measuring is an engine that refuses to measure for a while.
type measuring struct {
	API
	until time.Time
	err   error
}

func (m measuring) DiskUsage(context.Context, client.DiskUsageOptions) (res client.DiskUsageResult, err error) {
	if time.Now().Before(m.until) {
		return res, m.err
	}
	res.Volumes.Items = []volume.Volume{{Name: "two"}, {Name: "one"}}
	return res, nil
}

func TestVolumeUsageWaitsForOtherClients(t *testing.T) {
	busy := fmt.Errorf("%w: a disk usage operation is already running", errdefs.ErrInternal)
	removed := fmt.Errorf("%w: layer does not exist", errdefs.ErrInternal)
	for _, tc := range []struct {
		name string
		busy time.Duration
		err  error
		want string // the error
	}{
		{name: "alone"},
		{name: "beside another", busy: 30 * time.Second, err: busy},
		{name: "beside one that hangs", busy: time.Hour, err: busy, want: "reading the sizes of volumes: " + busy.Error()},
		{name: "beside a removal", busy: 500 * time.Millisecond, err: removed},
		{name: "a defect", busy: time.Hour, err: removed, want: "reading the sizes of volumes: " + removed.Error()},
		{name: "another error", busy: time.Second, err: errors.New("no"), want: "reading the sizes of volumes: no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				volumes, err := VolumeUsage(t.Context(), measuring{until: time.Now().Add(tc.busy), err: tc.err})
				if tc.want != "" {
					assert.Error(t, err, tc.want)
					return
				}
				assert.NilError(t, err)
				assert.Equal(t, volumes[0].Name, "one")
			})
		})
	}
}
