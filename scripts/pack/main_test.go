package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

func TestPackedProgramComesBackWhole(t *testing.T) {
	program := strings.Repeat("a program, ", 10_000)
	dir := fs.NewDir(t, "pack", fs.WithFile("ralph", program))
	target := dir.Join("payload", "ralph.zst")

	assert.NilError(t, run([]string{dir.Join("ralph"), target}))

	packed, err := os.ReadFile(target)
	assert.NilError(t, err)
	assert.Assert(t, len(packed) < len(program)/10, "packed into %d bytes", len(packed))
	decoder, err := zstd.NewReader(nil)
	assert.NilError(t, err)
	defer decoder.Close()
	unpacked, err := decoder.DecodeAll(packed, nil)
	assert.NilError(t, err)
	assert.Equal(t, string(unpacked), program)

	digest := sha256.Sum256([]byte(program))
	sum, err := os.ReadFile(dir.Join("payload", "ralph.sha256"))
	assert.NilError(t, err)
	assert.Equal(t, strings.TrimSpace(string(sum)), hex.EncodeToString(digest[:]))
}

func TestUnchangedProgramIsNotPackedAgain(t *testing.T) {
	dir := fs.NewDir(t, "pack", fs.WithFile("ralph", "one"))
	target := dir.Join("ralph.zst")
	assert.NilError(t, pack(dir.Join("ralph"), target))
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	assert.NilError(t, os.Chtimes(target, long, long))

	assert.NilError(t, pack(dir.Join("ralph"), target))
	info, err := os.Stat(target)
	assert.NilError(t, err)
	assert.Assert(t, info.ModTime().Equal(long))

	assert.NilError(t, os.WriteFile(dir.Join("ralph"), []byte("two"), 0o600))
	assert.NilError(t, pack(dir.Join("ralph"), target))
	info, err = os.Stat(target)
	assert.NilError(t, err)
	assert.Assert(t, info.ModTime().After(long))
}

func TestPackRefusesOtherArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"one"}, {"src", "dst.gz"}, {"a", "b.zst", "c"}} {
		assert.ErrorContains(t, run(args), "usage: pack SRC DST.zst")
	}
	assert.ErrorContains(t, run([]string{"/nowhere/ralph", "x.zst"}), "reading the program to pack")
}
