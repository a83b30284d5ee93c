package scopes

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
)

type engine struct{ Host string }

var engines = Section[engine]("engine")

func TestSectionsAreIndependent(t *testing.T) {
	dir := t.TempDir()
	_, found, err := engines.Read(dir, "box")
	assert.NilError(t, err)
	assert.Assert(t, !found)
	assert.NilError(t, engines.Remove(dir, "box"))

	assert.NilError(t, engines.Write(dir, "box", engine{"a"}))
	assert.NilError(t, Section[string]("owner").Write(dir, "box", "una"))
	assert.NilError(t, engines.Write(dir, "box", engine{"b"}))
	assert.NilError(t, engines.Write(dir, "other", engine{"c"}))
	all, err := engines.All(dir)
	assert.NilError(t, err)
	assert.DeepEqual(t, all, map[string]engine{"box": {"b"}, "other": {"c"}})

	assert.NilError(t, engines.Remove(dir, "box"))
	_, found, err = engines.Read(dir, "box")
	assert.NilError(t, err)
	assert.Assert(t, !found)
	owner, found, err := Section[string]("owner").Read(dir, "box")
	assert.NilError(t, err)
	assert.Assert(t, found)
	assert.Equal(t, owner, "una")
}

func TestConcurrentWritesLoseNoSection(t *testing.T) {
	dir := t.TempDir()
	var writers errgroup.Group
	for i := range 20 {
		writers.Go(func() error { return Section[int](fmt.Sprint(i)).Write(dir, "box", i) })
	}
	assert.NilError(t, writers.Wait())
	for i := range 20 {
		value, found, err := Section[int](fmt.Sprint(i)).Read(dir, "box")
		assert.NilError(t, err)
		assert.Assert(t, found)
		assert.Equal(t, value, i)
	}
}

func TestDamagedRecordIsAnErrorAndStays(t *testing.T) {
	for _, content := range []string{"", "{", `{"engine": "text"}`, `[]`} {
		t.Run(content, func(t *testing.T) {
			dir := t.TempDir()
			assert.NilError(t, engines.Write(dir, "good", engine{"a"}))
			path := filepath.Join(dir, "scopes", "box", "scope.json")
			assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))

			_, found, err := engines.Read(dir, "box")
			assert.ErrorContains(t, err, "reading the record of sandbox box")
			assert.Assert(t, !found)
			all, err := engines.All(dir)
			assert.NilError(t, err)
			assert.DeepEqual(t, all, map[string]engine{"good": {"a"}})
			left, err := os.ReadFile(path)
			assert.NilError(t, err)
			assert.Equal(t, string(left), content)
		})
	}
}

func TestRecordIsPrivate(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, engines.Write(dir, "box", engine{"a"}))
	for path, want := range map[string]os.FileMode{Dir(dir, "box"): 0o700, Path(dir, "box", "scope.json"): 0o600} {
		info, err := os.Stat(path)
		assert.NilError(t, err)
		assert.Equal(t, info.Mode().Perm(), want)
	}
}
