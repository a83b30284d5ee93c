package hint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
)

func TestPrint(t *testing.T) {
	inner := hint.Wrap(fs.ErrNotExist, "run %q", "docker ralph repair")
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"no hint", errors.New("it broke"), "Error: it broke\n"},
		{"one", inner, "Error: file does not exist\nHint: run \"docker ralph repair\"\n"},
		{"wrapped", fmt.Errorf("reading: %w", inner), "Error: reading: file does not exist\nHint: run \"docker ralph repair\"\n"},
		{"outermost first", hint.Wrap(inner, "or wait"), "Error: file does not exist\nHint: or wait\nHint: run \"docker ralph repair\"\n"},
		{"joined", errors.Join(inner, inner), "Error: file does not exist\nfile does not exist\nHint: run \"docker ralph repair\"\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			hint.Print(&b, tc.err)
			assert.Equal(t, b.String(), tc.want)
		})
	}
	assert.NilError(t, hint.Wrap(nil, "unused"))
	assert.ErrorIs(t, inner, fs.ErrNotExist)
}
