// Package prices estimates the cost of tokens from a table of list prices.
package prices

import (
	_ "embed" // for the built-in table
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/usage"
)

//go:embed prices.json
var builtin []byte

// Price is the list price of a model in US dollars per million tokens.
type Price struct {
	config.Price
	// Long is the surcharge for long prompts, or nil.
	Long *Long `json:"long"`
}

// Long multiplies the prices of requests whose prompt has more than Over tokens, cached ones
// included. Input is for everything but output.
type Long struct {
	Over   int64   `json:"over"`
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// Table has the prices of models by name.
type Table struct {
	// Date is when the prices were checked.
	Date   time.Time
	models map[string]Price
	own    map[string]Price
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

// With returns the table with prices that precede its own.
func (t Table) With(own map[string]config.Price) Table {
	t.own = map[string]Price{}
	for name, price := range own {
		t.own[normalize(name)] = Price{Price: price}
	}
	return t
}

// Cost estimates the cost of tokens in US dollars, if the model has a price. The prompts of
// their requests have more than this number of tokens.
func (t Table) Cost(model string, over int64, tokens usage.Tokens) (usd float64, known bool) {
	name := normalize(model)
	p, known := t.own[name]
	if !known {
		p, known = t.models[name]
	}
	return p.cost(over, tokens), known
}

// AtMost returns what tokens of a model without a price cost at most: as much as with the
// dearest model of its vendor or, if that is unknown, of all. It returns 0 and no name with
// an empty table.
func (t Table) AtMost(model string, over int64, tokens usage.Tokens) (usd float64, dearest string) {
	vendor := vendorOf(normalize(model))
	for _, name := range slices.Sorted(maps.Keys(t.models)) {
		if vendor != "" && vendorOf(name) != vendor {
			continue
		}
		if cost := t.models[name].cost(over, tokens); dearest == "" || cost > usd {
			usd, dearest = cost, name
		}
	}
	return usd, dearest
}

func (p Price) cost(over int64, tokens usage.Tokens) float64 {
	orInput := func(usd *float64) float64 {
		if usd == nil {
			return p.Input
		}
		return *usd
	}
	prompt := p.Input*float64(tokens.Input) + orInput(p.CacheRead)*float64(tokens.CacheRead) + orInput(p.CacheWrite)*float64(tokens.CacheWrite)
	answer := p.Output * float64(tokens.Output)
	if p.Long != nil && over >= p.Long.Over {
		prompt, answer = prompt*p.Long.Input, answer*p.Long.Output
	}
	return (prompt + answer) / 1e6
}

// families are parts of the names of a vendor's models, and of its agents.
var families = map[string][]string{
	"anthropic": {"claude", "anthropic"},
	"openai":    {"gpt", "codex", "openai"},
	"google":    {"gemini"},
}

// reasoning is the name of a model of OpenAI without its family.
var reasoning = lazyregexp.New(`^o\d`)

// vendorOf returns the vendor of a model, or "" if it is unknown.
func vendorOf(normalized string) string {
	for vendor, parts := range families {
		if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(normalized, part) }) {
			return vendor
		}
	}
	if reasoning().MatchString(normalized) {
		return "openai"
	}
	return ""
}

// version is the end of a model's name that does not change its price: a date, "latest".
var version = lazyregexp.New(`[-@](20\d{2}-?\d{2}-?\d{2}|latest)$`)

// normalize returns the name of a model without its vendor and its date. Names differ in
// dots and dashes: "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4.5".
func normalize(model string) string {
	model = model[strings.LastIndexByte(model, '/')+1:]
	return strings.ReplaceAll(version().ReplaceAllString(strings.ToLower(model), ""), ".", "-")
}
