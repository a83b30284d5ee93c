package main

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

func TestPackedProgramsUnpackUnchanged(t *testing.T) {
	dir := fs.NewDir(t, "pack", fs.WithFile("ralph", strings.Repeat("a program, ", 10_000)), fs.WithFile("proxy", "another"))
	target := dir.Join("guest", "linux.tar.zst")
	programs := []string{dir.Join("ralph"), dir.Join("proxy")}
	assert.NilError(t, run(append([]string{target}, programs...)))

	f, err := os.Open(target)
	assert.NilError(t, err)
	defer f.Close()
	decoder, err := zstd.NewReader(f)
	assert.NilError(t, err)
	defer decoder.Close()
	r := tar.NewReader(decoder)
	var sums string
	for _, program := range programs {
		header, err := r.Next()
		assert.NilError(t, err)
		assert.Equal(t, header.Name, filepath.Base(program))
		unpacked, err := io.ReadAll(r)
		assert.NilError(t, err)
		want, err := os.ReadFile(program)
		assert.NilError(t, err)
		assert.Equal(t, string(unpacked), string(want))
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(want), header.Name)
	}
	got, err := os.ReadFile(dir.Join("guest", "linux.sha256"))
	assert.NilError(t, err)
	assert.Equal(t, string(got), sums)
}

func TestUnchangedProgramIsNotPackedAgain(t *testing.T) {
	dir := fs.NewDir(t, "pack", fs.WithFile("ralph", "one"))
	target, programs := dir.Join("linux.tar.zst"), []string{dir.Join("ralph")}
	assert.NilError(t, pack(target, programs))
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	assert.NilError(t, os.Chtimes(target, long, long))

	assert.NilError(t, pack(target, programs))
	info, err := os.Stat(target)
	assert.NilError(t, err)
	assert.Assert(t, info.ModTime().Equal(long))

	assert.NilError(t, os.WriteFile(dir.Join("ralph"), []byte("two"), 0o600))
	assert.NilError(t, pack(target, programs))
	info, err = os.Stat(target)
	assert.NilError(t, err)
	assert.Assert(t, info.ModTime().After(long))
}

func TestPackRefusesOtherArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"one.tar.zst"}, {"dst.gz", "src"}} {
		assert.ErrorContains(t, run(args), "usage: pack DST.tar.zst PROGRAM [PROGRAM]")
	}
	assert.ErrorContains(t, run([]string{"x.tar.zst", "/nowhere/ralph"}), "reading a program to pack")
}
