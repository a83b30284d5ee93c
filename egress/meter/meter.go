// Package meter counts the tokens of model requests. It reads the figures that model APIs
// report in their answers, while these pass through the proxy unchanged.
package meter

import (
	"compress/gzip"
	"crypto/rand"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/wire/usage"
)

// Meter sums up the tokens of all answers, by model.
type Meter struct {
	id      string
	mu      sync.Mutex
	models  map[usage.Key]usage.Tokens
	unknown int64
}

// New returns a meter at zero.
func New() *Meter {
	return &Meter{id: strings.ToLower(rand.Text()[:12]), models: map[usage.Key]usage.Tokens{}}
}

// Totals returns the sums since [New].
func (m *Meter) Totals() usage.Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	totals := usage.Totals{ID: m.id, Unknown: m.unknown}
	for _, key := range slices.SortedFunc(maps.Keys(m.models), usage.Key.Compare) {
		totals.Models = append(totals.Models, usage.Model{Name: key.Model, Over: key.Over, Tokens: m.models[key]})
	}
	return totals
}

// add adds tokens of a model. Further models than [usage.MaxModels] are counted together.
func (m *Meter) add(key usage.Key, tokens usage.Tokens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// There is room left for the models counted together, with prompts of every size.
	if _, known := m.models[key]; !known && len(m.models) >= usage.MaxModels-1-len(usage.Sizes()) {
		key.Model = ""
	}
	m.models[key] = m.models[key].Add(tokens)
}

func (m *Meter) addUnknown() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unknown++
}

// Tee returns a body that reads the body of an answer and counts its tokens. It is not for
// concurrent use.
func (m *Meter) Tee(body io.ReadCloser, header http.Header) io.ReadCloser {
	r := &reader{meter: m}
	r.json = scanner{value: r.answer.set, end: r.count}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	r.stream = kind == "text/event-stream"
	t := &tee{ReadCloser: body}
	switch header.Get("Content-Encoding") {
	case "", "identity":
		t.write, t.end = r.write, r.end
	case "gzip":
		t.write, t.end = r.gunzip()
	default:
		if r.stream {
			m.addUnknown()
		}
		return body
	}
	return t
}

// AcceptEncoding removes the encodings from a request that a meter cannot decode.
func AcceptEncoding(header http.Header) {
	const name = "Accept-Encoding"
	if header.Get(name) == "" {
		return
	}
	kept := []string{}
	for encoding := range strings.SplitSeq(strings.Join(header[name], ","), ",") {
		coding, _, _ := strings.Cut(encoding, ";")
		if coding = strings.ToLower(strings.TrimSpace(coding)); coding == "gzip" || coding == "identity" {
			kept = append(kept, strings.TrimSpace(encoding))
		}
	}
	if len(kept) == 0 {
		kept = append(kept, "identity")
	}
	header.Set(name, strings.Join(kept, ", "))
}

// tee passes what is read to write, and calls end once after the last piece.
type tee struct {
	io.ReadCloser
	write func([]byte)
	end   func()
	once  sync.Once
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.write(p[:n])
	if err != nil {
		t.once.Do(t.end)
	}
	return n, err
}

func (t *tee) Close() error {
	err := t.ReadCloser.Close()
	t.once.Do(t.end)
	return err
}

// reader reads the figures of one answer.
type reader struct {
	meter   *Meter
	json    scanner
	stream  bool // of server-sent events
	event   eventScanner
	answer  answer
	counted usage.Tokens
}

func (r *reader) write(piece []byte) {
	if r.stream {
		r.event.scan(piece, &r.json)
	} else {
		r.json.scan(piece)
	}
}

// count adds to the meter what it does not have yet.
func (r *reader) count() {
	tokens := r.answer.tokens()
	if more := tokens.Sub(r.counted); more != (usage.Tokens{}) {
		r.meter.add(usage.Key{Model: r.answer.model, Over: tokens.Over()}, more)
		r.counted = tokens
	}
}

// end ends the answer. A stream without figures is unknown: OpenAI's API reports them on
// request only. Other answers without figures are not a model's.
func (r *reader) end() {
	r.count()
	if r.stream && !r.answer.found {
		r.meter.addUnknown()
	}
}

// gunzip returns write and end for a compressed answer. What is decompressed is processed
// at once and not kept.
func (r *reader) gunzip() (write func([]byte), end func()) {
	compressed, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		plain, err := gzip.NewReader(compressed)
		for buffer := make([]byte, 4<<10); err == nil; {
			var n int
			n, err = plain.Read(buffer)
			r.write(buffer[:n])
		}
		_ = compressed.CloseWithError(err)
		r.end()
	}()
	write = func(piece []byte) { _, _ = w.Write(piece) } // fails at once after invalid data
	end = func() {
		_ = w.Close()
		<-done
	}
	return write, end
}
