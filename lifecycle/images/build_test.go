package images

import (
	"context"
	"errors"
	"testing"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

type infoEngine struct {
	host.API
	info system.Info
	err  error
}

func (i infoEngine) Info(context.Context, client.InfoOptions) (client.SystemInfoResult, error) {
	return client.SystemInfoResult{Info: i.info}, i.err
}

func TestOtherPlatform(t *testing.T) {
	for _, tc := range []struct{ arch, platform, want string }{
		{"x86_64", "", ""},
		{"x86_64", "linux/amd64", ""},
		{"x86_64", "amd64", ""},
		{"x86_64", "linux/arm64", "linux/arm64"},
		{"aarch64", "linux/arm64", ""},
		{"aarch64", "linux/arm64/v8", ""},
		{"aarch64", "linux/arm/v7", "linux/arm/v7"},
		{"aarch64", "windows/arm64", "windows/arm64"},
	} {
		t.Run(tc.arch+" "+tc.platform, func(t *testing.T) {
			got, err := otherPlatform(t.Context(), infoEngine{info: system.Info{OSType: "linux", Architecture: tc.arch}}, tc.platform)
			assert.NilError(t, err)
			assert.Equal(t, got, tc.want)
		})
	}
	_, err := otherPlatform(t.Context(), infoEngine{}, "a/b/c/d")
	assert.ErrorContains(t, err, `invalid platform "a/b/c/d": `)
	_, err = otherPlatform(t.Context(), infoEngine{err: errors.New("down")}, "linux/amd64")
	assert.Error(t, err, "reading the engine's platform: down")
}
