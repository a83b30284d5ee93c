package projectimage

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
)

func TestReachWithoutBuildKit(t *testing.T) {
	b, engine, _ := newFake(t, nil)
	engine.host = "tcp://10.0.0.1:2376"
	_, err := b.Reach(t.Context())
	var noBuildKit *NoBuildKitError
	assert.Assert(t, errors.As(err, &noBuildKit))
	assert.Equal(t, noBuildKit.Host, engine.host)
}

// Neither engine's BuildKit tells its version, but both answer.
func TestEngineReach(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b := &Builder{Engine: e}
		_, err := b.Reach(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, e.others.Load()+e.inspects.Load(), int64(0))
	})
}
