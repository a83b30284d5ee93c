// Package usage is the protocol by which a sandbox queries its proxy for the tokens of its
// model requests. Model names come from the model's endpoint, so answers are not trusted.
package usage

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Path is the path of the totals, on the port for routes. No route begins with a dot.
	Path = "/.usage"
	// MaxModels bounds the number of models in an answer, counted once per size of prompts.
	MaxModels = 32
	// MaxName bounds the name of a model, in bytes.
	MaxName = 128
	// maxSize bounds the size of an answer, in bytes.
	maxSize = 64 << 10
	// maxCount is far from an overflow of sums.
	maxCount = 1 << 56
)

// Tokens counts tokens. Input does not include those of the cache.
type Tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// Add returns the sum.
func (t Tokens) Add(o Tokens) Tokens {
	return Tokens{t.Input + o.Input, t.Output + o.Output, t.CacheRead + o.CacheRead, t.CacheWrite + o.CacheWrite}
}

// Sub returns the difference.
func (t Tokens) Sub(o Tokens) Tokens {
	return Tokens{t.Input - o.Input, t.Output - o.Output, t.CacheRead - o.CacheRead, t.CacheWrite - o.CacheWrite}
}

func (t Tokens) valid() bool {
	for _, n := range []int64{t.Input, t.Output, t.CacheRead, t.CacheWrite} {
		if n < 0 || n > maxCount {
			return false
		}
	}
	return true
}

// Key is what tokens are counted by.
type Key struct {
	// Model is empty if unknown.
	Model string
	// Over is the highest of [Sizes] that the prompts exceed, or 0.
	Over int64
}

// Compare orders keys.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Model, o.Model), cmp.Compare(k.Over, o.Over))
}

// Sizes are the numbers of tokens of a prompt beyond which some model costs more, ascending.
func Sizes() []int64 { return []int64{100_000, 200_000, 272_000} }

// Over returns the highest of [Sizes] that the prompt of one request exceeds, or 0.
func (t Tokens) Over() (over int64) {
	for _, size := range Sizes() {
		if t.Input+t.CacheRead+t.CacheWrite > size {
			over = size
		}
	}
	return over
}

// Model has the tokens of one model, in requests with prompts of one size.
type Model struct {
	// Name is empty if unknown.
	Name string `json:"name"`
	// Over is that of [Key].
	Over int64 `json:"over,omitempty"`
	Tokens
}

func (m Model) key() Key { return Key{m.Name, m.Over} }

// Totals are the tokens since the proxy started.
type Totals struct {
	// ID changes when the proxy restarts, which resets the totals.
	ID     string  `json:"id"`
	Models []Model `json:"models"`
	// Unknown counts streamed answers without figures.
	Unknown int64 `json:"unknown,omitempty"`
}

// Read parses an untrusted answer.
func Read(answer []byte) (Totals, error) {
	var t Totals
	wrong := errors.New("usage report of the proxy is not valid")
	if len(answer) > maxSize || json.Unmarshal(answer, &t) != nil || t.ID == "" || len(t.Models) > MaxModels || t.Unknown < 0 || t.Unknown > maxCount {
		return Totals{}, wrong
	}
	for _, m := range t.Models {
		if !m.valid() || !ValidName(m.Name) || m.Over < 0 {
			return Totals{}, wrong
		}
	}
	return t, nil
}

// ValidName reports whether a model's name is short, printable and without white space.
func ValidName(name string) bool {
	unusual := func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	return len(name) <= MaxName && !strings.ContainsFunc(name, unusual)
}
