package microvm

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/scopes"
)

func TestImages(t *testing.T) {
	dir := t.TempDir()
	none, err := Images(dir, "sbx")
	assert.NilError(t, err)
	assert.Equal(t, len(none), 0)

	assert.NilError(t, recordsOf(dir, "sbx").write(record{Name: "a", Image: "image:1", Created: true}))
	assert.NilError(t, recordsOf(dir, "sbx").write(record{Name: "b", Image: "image:2"})) // being made
	assert.NilError(t, recordsOf(dir, "docker-sandbox").write(record{Name: "c", Image: "image:3", Created: true}))
	images, err := Images(dir, "sbx")
	assert.NilError(t, err)
	assert.DeepEqual(t, images, map[string]string{"a": "image:1", "b": "image:2"})

	// The sandbox of an unreadable record may exist.
	assert.NilError(t, scopes.Section[string]("sbx").Write(dir, "d", "damaged"))
	_, err = Images(dir, "sbx")
	assert.ErrorContains(t, err, "reading the record of sandbox d")
}
