package gitsync

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// rawPack returns a pack of some objects, without its checksum.
func rawPack(objects ...[]byte) []byte {
	pack := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	return append(pack, bytes.Join(objects, nil)...)
}

// rawObject returns an object of a pack, whose declared size may be wrong.
func rawObject(kind byte, size uint64, base, content []byte) []byte {
	first := kind<<4 | byte(size&15)
	if size >>= 4; size > 0 {
		first |= 0x80
	}
	entry := []byte{first}
	if size > 0 {
		entry = binary.AppendUvarint(entry, size)
	}
	var deflated bytes.Buffer
	w := zlib.NewWriter(&deflated)
	_, _ = w.Write(content)
	_ = w.Close()
	return append(append(entry, base...), deflated.Bytes()...)
}

func delta(base, result uint64) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, base), result), "copies"...)
}

func TestPackSize(t *testing.T) {
	const blob = 3
	id := make([]byte, 20)
	bomb, half := delta(10, 3<<30), delta(10, 500<<20)
	many := make([][]byte, 17)
	for i := range many {
		many[i] = rawObject(referenceDelta, uint64(len(half)), id, half)
	}
	for _, tc := range []struct {
		name string
		pack []byte
		size uint64
		err  string
	}{
		{"small objects", rawPack(rawObject(blob, 5, nil, []byte("hello")), rawObject(blob, 100, nil, make([]byte, 100))), 105, ""},
		{"a delta by reference", rawPack(rawObject(referenceDelta, uint64(len(delta(10, 99))), id, delta(10, 99)), rawObject(blob, 1, nil, []byte("x"))), 100, ""},
		{"a delta by offset", rawPack(rawObject(offsetDelta, uint64(len(delta(10, 99))), []byte{0x81, 0x02}, delta(10, 99)), rawObject(blob, 1, nil, []byte("x"))), 100, ""},
		{"a large object", rawPack(rawObject(blob, 1<<30, nil, []byte("x"))), 0, "an object of 1024 MiB: at most 512 MiB are fetched"},
		{"a large result of a delta", rawPack(rawObject(referenceDelta, uint64(len(bomb)), id, bomb)), 0, "an object of 3072 MiB: at most 512 MiB are fetched"},
		{"many results of deltas", rawPack(many...), 0, "commits of 8500 MiB: at most 8192 MiB are fetched"},
		{"more content than declared", rawPack(rawObject(blob, 1, nil, make([]byte, 1<<20)), rawObject(blob, 1, nil, []byte("x"))), 0, "invalid pack"},
		{"truncated", rawPack(rawObject(blob, 5, nil, []byte("hello")))[:20], 0, "invalid pack"},
		{"a huge size", rawPack(append([]byte{0xbf}, bytes.Repeat([]byte{0xff}, 12)...)), 0, "invalid pack"},
		{"something else", []byte("bundle of hay"), 0, "not a pack"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, size, err := packSize(bytes.NewReader(tc.pack), len(id))
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, size, tc.size)
		})
	}
}

// A delta of some bytes makes an object of gigabytes: git does not see it.
func TestDeltaBombIsRefused(t *testing.T) {
	w := newSandbox(t)
	path := t.TempDir() + "/pack"
	bomb := delta(10, 3<<30)
	assert.NilError(t, os.WriteFile(path, rawPack(rawObject(referenceDelta, uint64(len(bomb)), make([]byte, 20), bomb)), 0o600))
	err := w.repo.unpack(t.Context(), w.repo.git, path)
	_, invalid := errors.AsType[*invalidError](err)
	assert.Assert(t, invalid, "%v", err)
	assert.ErrorContains(t, err, "an object of 3072 MiB: at most 512 MiB are fetched")
}

// The sizes of a real pack are those that git reports.
func TestPackSizeOfGit(t *testing.T) {
	dir := t.TempDir()
	script := `git init -q . && for i in 1 2 3 4 5; do seq 1 2000 >f; echo $i >>f; git add f; git -c user.name=x -c user.email=x@y commit -q -m $i; done
git rev-list --objects HEAD | cut -d" " -f1 >ids
git cat-file --batch-check="%(objectsize)" <ids | awk "{ n += \$1 } END { print n }" >size
git pack-objects -q --stdout $DELTA <ids`
	for _, option := range []string{"", "--delta-base-offset"} {
		cmd := exec.Command("sh", "-c", "rm -rf .git f; "+script)
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), "DELTA="+option)
		pack, err := cmd.Output()
		assert.NilError(t, err)
		want, err := os.ReadFile(dir + "/size")
		assert.NilError(t, err)
		objects, size, err := packSize(bytes.NewReader(pack), 20)
		assert.NilError(t, err)
		assert.Equal(t, objects, uint32(15))
		assert.Equal(t, fmt.Sprint(size), strings.TrimSpace(string(want)))
	}
}
