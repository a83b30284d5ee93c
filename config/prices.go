package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Price is what a model costs, in US dollars per million tokens.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	// CacheRead and CacheWrite are nil if they are the price of input.
	CacheRead  *float64 `json:"cache_read,omitempty"`
	CacheWrite *float64 `json:"cache_write,omitempty"`
}

// tablePrices is the table of prices by model. A repository must not set them: a low price
// loosens the limit of the cost.
const tablePrices = "prices"

// priceSettings are the keys of [prices.MODEL].
func priceSettings() []setting {
	price := func(key string, store func(*Price, float64)) setting {
		return setting{key: tablePrices + "." + anyName + "." + key, form: floatForm, setNamed: func(c *Config, model, v string, from OriginKind) error {
			return userOnly(func(c *Config, v string) error { return c.setPrice(model, v, store) })(c, v, from)
		}}
	}
	return []setting{
		price("input", func(p *Price, usd float64) { p.Input = usd }),
		price("output", func(p *Price, usd float64) { p.Output = usd }),
		price("cache_read", func(p *Price, usd float64) { p.CacheRead = &usd }),
		price("cache_write", func(p *Price, usd float64) { p.CacheWrite = &usd }),
	}
}

// setPrice sets one price of a model.
func (c *Config) setPrice(model, v string, store func(*Price, float64)) error {
	usd, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(usd) || usd < 0 || usd > maxBound {
		return errors.New("must be an amount in US dollars per million tokens, such as 2.50")
	}
	if c.Prices == nil {
		c.Prices = map[string]Price{}
	}
	p := c.Prices[model]
	store(&p, usd)
	c.Prices[model] = p
	return nil
}

// requirePrices reports models without a price of input or output, which would be free.
func (m *merger) requirePrices() {
	for _, model := range slices.Sorted(maps.Keys(m.e.Prices)) {
		for _, key := range []string{"input", "output"} {
			if _, set := m.e.Origins[tablePrices+"."+model+"."+key]; !set {
				m.problems = append(m.problems, fmt.Errorf("[prices.%q]: missing %s, in US dollars per million tokens", model, key))
			}
		}
	}
}
