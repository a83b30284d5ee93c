package lifecycle

import (
	"bytes"
	"testing"

	"gotest.tools/v3/assert"
)

func TestLimited(t *testing.T) {
	var buf bytes.Buffer
	l := &Limited{To: &buf, Left: 4}
	for range 3 {
		n, err := l.Write([]byte("abc"))
		assert.NilError(t, err)
		assert.Equal(t, n, 3)
	}
	assert.Equal(t, buf.String(), "abca")
}
