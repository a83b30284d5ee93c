package projectimage

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// BenchmarkFindProject reads a project that copies 200 files.
func BenchmarkFindProject(b *testing.B) {
	root := b.TempDir()
	writeFiles(b, root, map[string]string{sandboxDockerfile: head + "COPY . /srv/\n"})
	for i := range 200 {
		writeFiles(b, root, map[string]string{fmt.Sprintf("tools/%02d/%03d", i%10, i): strings.Repeat("line\n", 800)})
	}
	for b.Loop() {
		_, found, err := FindProject(b.Context(), root)
		assert.NilError(b, err)
		assert.Assert(b, found)
	}
}

func writeFiles(b *testing.B, root string, files map[string]string) {
	b.Helper()
	for name, content := range files {
		writeFile(b, projectPath(root, name), content)
	}
}
