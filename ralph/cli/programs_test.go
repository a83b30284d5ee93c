package cli

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

func TestSame(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	dir := fs.NewDir(t, "programs",
		fs.WithFile("a", long+"end"), fs.WithFile("copy", long+"end"), fs.WithFile("other", long+"eNd"),
		fs.WithFile("longer", long+"end."), fs.WithFile("full", long), fs.WithFile("full-too", long),
		fs.WithFile("empty", ""), fs.WithFile("empty-too", ""),
		fs.WithSymlink("link", "a"), fs.WithHardlink("hard", "a"), fs.WithSymlink("broken", "nowhere"), fs.WithDir("folder"))
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"a", "a", true},
		{"a", "copy", true},
		{"link", "copy", true},
		{"a", "link", true},
		{"a", "hard", true},
		{"full", "full-too", true},
		{"empty", "empty-too", true},
		{"a", "other", false},
		{"a", "longer", false},
		{"a", "broken", false},
		{"missing", "a", false},
		{"folder", "a", false},
	} {
		t.Run(tc.a+" "+tc.b, func(t *testing.T) {
			assert.Equal(t, same(dir.Join(tc.a), dir.Join(tc.b)), tc.want)
			assert.Equal(t, same(dir.Join(tc.b), dir.Join(tc.a)), tc.want)
		})
	}
}
