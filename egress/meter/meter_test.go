package meter

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/wire/usage"
)

// recorded are the figures of the answers in testdata.
var recorded = map[string]usage.Totals{
	"anthropic.sse":  one("claude-sonnet-4-5-20250929", usage.Tokens{Input: 4, Output: 217, CacheRead: 11803, CacheWrite: 3072}),
	"anthropic.json": one("claude-haiku-4-5-20251001", usage.Tokens{Input: 25, Output: 12, CacheRead: 100}),
	"chat.sse":       one("gpt-5.1-2025-11-13", usage.Tokens{Input: 109, Output: 90, CacheRead: 1408}),
	"chat.json":      one("deepseek/deepseek-v3.2", usage.Tokens{Input: 500, Output: 20, CacheRead: 300, CacheWrite: 200}),
	"responses.sse":  one("gpt-5.1-codex", usage.Tokens{Input: 200, Output: 52, CacheRead: 128}),
	"responses.json": one("gpt-6-sol", usage.Tokens{Input: 500, Output: 52, CacheRead: 1000, CacheWrite: 1500}),
	"gemini.sse":     one("gemini-2.5-pro", usage.Tokens{Input: 1024, Output: 285, CacheRead: 4096}),
	// Without "alt=sse" Gemini streams an array.
	"gemini-array.json":      one("gemini-3-flash-preview", usage.Tokens{Input: 15, Output: 8}),
	"codeassist.sse":         one("gemini-2.5-flash", usage.Tokens{Input: 7000, Output: 20}),
	"chat-without-usage.sse": {Unknown: 1},
}

func one(model string, tokens usage.Tokens) usage.Totals {
	return usage.Totals{Models: []usage.Model{{Name: model, Tokens: tokens}}}
}

func readTestdata(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	assert.NilError(tb, err)
	return b
}

func headerOf(name string) http.Header {
	if filepath.Ext(name) == ".sse" {
		return http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
	}
	return http.Header{"Content-Type": {"application/json"}}
}

func compress(tb testing.TB, body []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(body)
	assert.NilError(tb, err)
	assert.NilError(tb, w.Close())
	return b.Bytes()
}

// totals returns the sums without the meter's ID.
func totals(m *Meter) usage.Totals {
	t := m.Totals()
	t.ID = ""
	return t
}

// measure reads an answer through a meter.
func measure(tb testing.TB, body []byte, header http.Header, by func(io.Reader) io.Reader) usage.Totals {
	tb.Helper()
	m := New()
	tee := m.Tee(io.NopCloser(by(bytes.NewReader(body))), header)
	passed, err := io.ReadAll(tee)
	assert.NilError(tb, err)
	assert.NilError(tb, tee.Close())
	assert.Assert(tb, bytes.Equal(passed, body), "the answer was changed")
	return totals(m)
}

func whole(r io.Reader) io.Reader { return r }

func TestFiguresOfModelAPIs(t *testing.T) {
	files, err := filepath.Glob("testdata/*.*")
	assert.NilError(t, err)
	assert.Equal(t, len(files), len(recorded))
	for name, want := range recorded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, header := readTestdata(t, name), headerOf(name)
			assert.DeepEqual(t, measure(t, body, header, whole), want)
			assert.DeepEqual(t, measure(t, body, header, iotest.OneByteReader), want)
			crlf := bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n"))
			assert.DeepEqual(t, measure(t, crlf, header, iotest.HalfReader), want)

			header.Set("Content-Encoding", "gzip")
			packed := compress(t, body)
			assert.DeepEqual(t, measure(t, packed, header, whole), want)
			assert.DeepEqual(t, measure(t, packed, header, iotest.OneByteReader), want)
		})
	}
}

// What is known of an answer counts while it streams, compressed or not, and when it
// breaks off.
func TestFiguresOfAnIncompleteAnswer(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		m := New()
		answer, server := io.Pipe()
		header := headerOf("anthropic.sse")
		header.Set("Content-Encoding", encoding)
		tee := m.Tee(answer, header)
		first, _, _ := bytes.Cut(readTestdata(t, "anthropic.sse"), []byte("event: ping"))
		go func() {
			if encoding == "" {
				_, _ = server.Write(first)
				return
			}
			z := gzip.NewWriter(server)
			_, _ = z.Write(first)
			_ = z.Flush()
		}()
		read := make(chan error)
		go func() {
			_, err := io.Copy(io.Discard, tee)
			read <- err
		}()
		want := one("claude-sonnet-4-5-20250929", usage.Tokens{Input: 4, Output: 1, CacheRead: 11803, CacheWrite: 3072})
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if got := totals(m); len(got.Models) == 0 {
				return poll.Continue("%+v", got)
			}
			return poll.Success()
		})
		assert.DeepEqual(t, totals(m), want)
		assert.NilError(t, server.CloseWithError(io.ErrUnexpectedEOF))
		assert.ErrorIs(t, <-read, io.ErrUnexpectedEOF)
		assert.NilError(t, tee.Close())
		assert.DeepEqual(t, totals(m), want)
	}
}

func TestTotalsOfSeveralAnswers(t *testing.T) {
	m := New()
	read := func(header http.Header, body string) {
		_, err := io.Copy(io.Discard, m.Tee(io.NopCloser(strings.NewReader(body)), header))
		assert.NilError(t, err)
	}
	plain, stream := headerOf("x.json"), headerOf("x.sse")
	for range 3 {
		read(plain, `{"model":"b","usage":{"input_tokens":10,"output_tokens":1}}`)
	}
	read(stream, `data: {"model":"a","usage":{"prompt_tokens":7}}`) // without a newline at the end
	for _, body := range []string{
		"", "not JSON", `{"usage":{"input_tokens":-5,"output_tokens":1.5,"prompt_tokens":"7","completion_tokens":99999999999999999999}}`,
		`{"usage":[{"input_tokens":5}]}`, `{"choices":[{"usage":{"input_tokens":5}}]}`, `[[{"usage":{"input_tokens":5}}]]`,
		`{"a":{"b":{"c":{"d":{"e":{"usage":{"input_tokens":5}}}}}}}`, `{"input_tokens":5}`, `"usage"`, `5`, `]]]]`,
	} {
		read(plain, body)
	}
	read(stream, "data: {}\n\n")
	read(http.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"br"}}, "xxxx")
	read(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"br"}}, "xxxx")
	read(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, "not gzip"+strings.Repeat("x", 1<<20))
	assert.DeepEqual(t, totals(m), usage.Totals{Unknown: 2, Models: []usage.Model{
		{Name: "a", Tokens: usage.Tokens{Input: 7}}, {Name: "b", Tokens: usage.Tokens{Input: 30, Output: 3}},
	}})
}

// Names are bounded in number and in length, and printable.
func TestModelNamesAreBounded(t *testing.T) {
	m := New()
	for _, name := range []string{strings.Repeat("x", usage.MaxName+1), "a b", "\x1b[31m", "\xff", "\u202e"} {
		body := `{"model":"` + name + `","usage":{"input_tokens":1}}`
		_, err := io.Copy(io.Discard, m.Tee(io.NopCloser(strings.NewReader(body)), headerOf("x.json")))
		assert.NilError(t, err)
	}
	assert.DeepEqual(t, totals(m), one("", usage.Tokens{Input: 5}))
	for i := range 1000 {
		m.add(usage.Key{Model: strings.Repeat("x", i%100), Over: append(usage.Sizes(), 0)[i%4]}, usage.Tokens{Input: 1})
	}
	all := m.Totals()
	assert.Assert(t, len(all.Models) <= usage.MaxModels, len(all.Models))
	var sum usage.Tokens
	for _, model := range all.Models {
		sum = sum.Add(model.Tokens)
	}
	assert.Equal(t, sum, usage.Tokens{Input: 1005})
}

func TestAcceptEncoding(t *testing.T) {
	for asked, want := range map[string]string{
		"":                               "",
		"gzip, deflate, br, zstd":        "gzip",
		"br;q=1.0, GZIP;q=0.8, *;q=0.1":  "GZIP;q=0.8",
		"br":                             "identity",
		"identity":                       "identity",
		"gzip;q=0, identity;q=0.5, zstd": "gzip;q=0, identity;q=0.5",
	} {
		header := http.Header{}
		if asked != "" {
			header.Set("Accept-Encoding", asked)
		}
		AcceptEncoding(header)
		assert.Equal(t, header.Get("Accept-Encoding"), want, asked)
	}
}

// As many answers as the proxy serves at a time, of any size, need little memory.
func TestMemoryOfOpenAnswers(t *testing.T) {
	const answers, maxUsed = 512, 64 << 20
	huge := compress(t, []byte(`{"content":"`+strings.Repeat("x", 32<<20)))
	header := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := New()
	var open []io.Closer
	for i := range answers {
		piece := huge[:64]
		if i%64 == 0 {
			piece = huge
		}
		tee := m.Tee(io.NopCloser(io.MultiReader(bytes.NewReader(piece), endless{})), header)
		_, err := io.CopyN(io.Discard, tee, int64(len(piece)))
		assert.NilError(t, err)
		open = append(open, tee)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	t.Logf("%d KiB per answer", used>>10/answers)
	assert.Check(t, used < maxUsed, "%d MiB", used>>20)
	for _, tee := range open {
		assert.NilError(t, tee.Close())
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "x"), nil }

// Prompts of a size that costs more are counted apart, whether they are cached or not.
func TestLongPromptsAreCountedApart(t *testing.T) {
	m := New()
	for _, u := range []string{
		`"input_tokens":100000`,
		`"input_tokens":1,"cache_read_input_tokens":100000`,
		`"input_tokens":1,"cache_creation_input_tokens":250000`,
		`"prompt_tokens":272001,"prompt_tokens_details":{"cached_tokens":272000}`,
		`"prompt_tokens":300000`,
		`"input_tokens":2,"output_tokens":500000`,
	} {
		body := `{"model":"m","usage":{` + u + `}}`
		_, err := io.Copy(io.Discard, m.Tee(io.NopCloser(strings.NewReader(body)), headerOf("x.json")))
		assert.NilError(t, err)
	}
	assert.DeepEqual(t, m.Totals().Models, []usage.Model{
		{Name: "m", Tokens: usage.Tokens{Input: 100_002, Output: 500_000}},
		{Name: "m", Over: 100_000, Tokens: usage.Tokens{Input: 1, CacheRead: 100_000}},
		{Name: "m", Over: 200_000, Tokens: usage.Tokens{Input: 1, CacheWrite: 250_000}},
		{Name: "m", Over: 272_000, Tokens: usage.Tokens{Input: 300_001, CacheRead: 272_000}},
	})
}
