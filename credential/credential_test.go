package credential

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestCollect(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": ""}
	got := Collect([]string{"A", "B", "EMPTY", "A"}, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	assert.DeepEqual(t, got, []string{"A=1", "EMPTY="})
}
