// Package prices estimates the cost of tokens from a table of list prices.
package prices

import (
	_ "embed" // for the built-in table
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/usage"
)

//go:embed prices.json
var builtin []byte

// Price is the list price of a model in US dollars per million tokens.
type Price struct {
	Input     float64 `json:"input"`
	Output    float64 `json:"output"`
	CacheRead float64 `json:"cache_read"`
	// CacheWrite is 0 if it is the price of input.
	CacheWrite float64 `json:"cache_write"`
}

// Table has the prices of models by name.
type Table struct {
	// Date is when the prices were checked.
	Date   time.Time
	models map[string]Price
}

// Builtin returns the built-in table.
func Builtin() (Table, error) {
	var file struct {
		Date   string           `json:"date"`
		Models map[string]Price `json:"usd_per_million_tokens"`
	}
	if err := json.Unmarshal(builtin, &file); err != nil {
		return Table{}, fmt.Errorf("reading the built-in prices: %w", err)
	}
	date, err := time.Parse(time.DateOnly, file.Date)
	if err != nil {
		return Table{}, fmt.Errorf("reading the built-in prices: %w", err)
	}
	t := Table{Date: date, models: map[string]Price{}}
	for name, price := range file.Models {
		t.models[normalize(name)] = price
	}
	return t, nil
}

// Cost estimates the cost of tokens in US dollars, if the model has a price.
func (t Table) Cost(model string, tokens usage.Tokens) (usd float64, known bool) {
	p, known := t.models[normalize(model)]
	if p.CacheWrite == 0 {
		p.CacheWrite = p.Input
	}
	sum := p.Input*float64(tokens.Input) + p.Output*float64(tokens.Output) +
		p.CacheRead*float64(tokens.CacheRead) + p.CacheWrite*float64(tokens.CacheWrite)
	return sum / 1e6, known
}

// version is the end of a model's name that does not change its price: a date, "latest".
var version = lazyregexp.New(`[-@](20\d{2}-?\d{2}-?\d{2}|latest)$`)

// normalize returns the name of a model without its vendor and its date. Names differ in
// dots and dashes: "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4.5".
func normalize(model string) string {
	model = model[strings.LastIndexByte(model, '/')+1:]
	return strings.ReplaceAll(version().ReplaceAllString(strings.ToLower(model), ""), ".", "-")
}
