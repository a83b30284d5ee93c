package dbcopy

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func read(stream string) (files map[string]string, err error) {
	files = map[string]string{}
	_, err = Receive(strings.NewReader(stream), func(f File) error {
		content, err := io.ReadAll(f.Content)
		files[f.Suffix] = string(content)
		return err
	})
	return files, err
}

func TestFilesAreReceivedAsSent(t *testing.T) {
	for _, files := range []map[string]string{{}, {"": "database"}, {"": "database", "-wal": "log"}, {"": "", "-journal": "x"}} {
		var all []File
		for _, suffix := range Suffixes() {
			if content, ok := files[suffix]; ok {
				all = append(all, File{suffix, int64(len(content)), strings.NewReader(content)})
			}
		}
		var b bytes.Buffer
		assert.NilError(t, Send(&b, all))
		got, err := read(b.String())
		assert.NilError(t, err)
		assert.DeepEqual(t, got, files)
		for cut := range b.Len() - 1 {
			_, err := read(b.String()[:cut])
			assert.Assert(t, err != nil, "%d of %d bytes", cut, b.Len())
		}
	}
}

func TestInvalidStreamsAreRefused(t *testing.T) {
	for stream, want := range map[string]string{
		"":                                       "unexpected EOF",
		"x\n":                                    "invalid character",
		`{"files":[{"size":-1}]}` + "\n":         "larger than",
		`{"files":[{"size":1e20}]}` + "\n":       "cannot unmarshal",
		`{"files":[{"size":1073741825}]}` + "\n": "larger than",
		`{"files":[{"suffix":"-wal","size":1}]}` + "\n":            "unexpected file",
		`{"files":[{"size":1},{"size":1}]}` + "\n":                 "unexpected file",
		`{"files":[{"suffix":"/../x","size":1}]}` + "\n":           "unexpected file",
		`{"files":[{"size":1}]}` + "\nx" + strings.Repeat("0", 64): "checksum",
	} {
		_, err := read(stream)
		assert.ErrorContains(t, err, want, stream)
	}
	assert.ErrorContains(t, Send(io.Discard, []File{{"", 5, strings.NewReader("1234")}}), "unexpected EOF")
}

func FuzzReceive(f *testing.F) {
	var b bytes.Buffer
	_ = Send(&b, []File{{"", 3, strings.NewReader("abc")}, {"-wal", 1, strings.NewReader("x")}})
	f.Add(b.String())
	f.Fuzz(func(_ *testing.T, stream string) { _, _ = read(stream) })
}
