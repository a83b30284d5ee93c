package meter

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"testing/iotest"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/usage"
)

// fuzz adds the recorded answers to the seeds.
func fuzz(f *testing.F, extension string) {
	for name := range recorded {
		if filepath.Ext(name) == extension {
			f.Add(readTestdata(f, name))
		}
	}
}

// check measures an answer in several ways: the result is the same, and valid.
func check(t *testing.T, body []byte, header http.Header) usage.Totals {
	got := measure(t, body, header, whole)
	assert.DeepEqual(t, measure(t, body, header, iotest.OneByteReader), got)
	encoded, err := json.Marshal(usage.Totals{ID: "id", Models: got.Models, Unknown: got.Unknown})
	assert.NilError(t, err)
	_, err = usage.Read(encoded)
	assert.NilError(t, err)
	return got
}

func FuzzStream(f *testing.F) {
	fuzz(f, ".sse")
	f.Add([]byte("data:{\"usage\":\ndata:{\"input_tokens\":5}}\r\n\r\ndata"))
	f.Fuzz(func(t *testing.T, body []byte) { check(t, body, headerOf("x.sse")) })
}

func FuzzGzip(f *testing.F) {
	for name := range recorded {
		f.Add(compress(f, readTestdata(f, name)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		header := headerOf("x.sse")
		header.Set("Content-Encoding", "gzip")
		check(t, body, header)
	})
}

// The scanner finds the same values in valid JSON as encoding/json.
func FuzzJSON(f *testing.F) {
	fuzz(f, ".json")
	f.Add([]byte(`{"model":"a","usage":{"input_tokens":5,"input_tokens":7}}`))
	f.Add([]byte(`[[1],{"usage":{"output_tokens":1}},{"usageMetadata":{}}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := check(t, body, headerOf("x.json"))
		if !json.Valid(body) || bytes.ContainsAny(body, "\\") {
			return // escape sequences are not decoded
		}
		var want answer
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		reference(d, "", true, want.set)
		var sum usage.Tokens
		for _, model := range got.Models {
			sum = sum.Add(model.Tokens)
		}
		assert.Equal(t, sum, want.tokens())
	})
}

// reference reports the values of a document to set.
func reference(d *json.Decoder, path string, top bool, set func(path, value []byte, quoted bool)) {
	switch v, _ := d.Token(); v := v.(type) {
	case json.Delim:
		for d.More() {
			inner := "[]"
			if v == '{' {
				key, _ := d.Token()
				inner = key.(string)
			} else if top {
				inner = ""
			}
			if path != "" {
				inner = path + "." + inner
			}
			reference(d, inner, false, set)
		}
		_, _ = d.Token()
	case string:
		set([]byte(path), []byte(v), true)
	case json.Number:
		set([]byte(path), []byte(v), false)
	}
}

func BenchmarkTee(b *testing.B) {
	body := bytes.Repeat(readTestdata(b, "anthropic.sse"), 1000)
	m := New()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		_, err := io.Copy(io.Discard, m.Tee(io.NopCloser(bytes.NewReader(body)), headerOf("x.sse")))
		assert.NilError(b, err)
	}
}
