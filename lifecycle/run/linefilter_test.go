package run

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestLineFilterRemovesStatusLines(t *testing.T) {
	t.Parallel()
	const sent = "one\r\n\x1b[2mtask 1\x1b[0m\r\x1b[Jtask 2\r\x1b[Jtwo\r\nthree\r\ntask 3\r\x1b[J\x1b[Jfour\r\ntask 4\r"
	for size := range len(sent) {
		var f lineFilter
		var got []byte
		for i := 0; i < len(sent); i += size + 1 {
			got = append(got, f.filter([]byte(sent[i:min(len(sent), i+size+1)]))...)
		}
		assert.Equal(t, string(got), "one\r\ntwo\r\nthree\r\nfour\r\n")
	}
	var f lineFilter
	long := strings.Repeat("x", maxPartial+1)
	assert.Equal(t, string(f.filter([]byte(long))), long)
}
