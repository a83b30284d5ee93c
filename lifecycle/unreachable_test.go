package lifecycle

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
)

func TestExplainUnreachable(t *testing.T) {
	address := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	api, err := client.New(client.WithHost(address))
	assert.NilError(t, err)
	_, err = api.Ping(t.Context(), client.PingOptions{})
	assert.Assert(t, err != nil)

	proxy := fmt.Errorf("inspecting the proxy of x: %w", err)
	for _, one := range []error{proxy, errors.Join(nil, proxy), errors.Join(proxy, fmt.Errorf("removing it: %w", errors.Join(err)))} {
		got := ExplainUnreachable(one)
		assert.Error(t, got, "cannot connect to the Docker Engine at "+address)
		assert.Equal(t, len(hint.Of(got)), 1)
		assert.ErrorIs(t, got, err)
	}

	for _, other := range []error{nil, errors.New("other"), hint.Wrap(err, "attach"), errors.Join(errors.New("sbx"), err)} {
		assert.Equal(t, ExplainUnreachable(other), other)
	}
}
