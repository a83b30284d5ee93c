package config

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestPrices(t *testing.T) {
	load := func(content string) (Effective, error) {
		return Load(Sources{Root: t.TempDir(), UserDir: write(t, "config.toml", content)})
	}
	half := 0.5
	for content, want := range map[string]map[string]Price{
		"[prices.mine]\ninput = 2\noutput = \"10\"\n":                                {"mine": {Input: 2, Output: 10}},
		"[prices.\"gpt-6.2-sol\"]\ninput = 2\noutput = 10\ncache_read = 0.5\n":       {"gpt-6.2-sol": {Input: 2, Output: 10, CacheRead: &half}},
		"[prices]\n\"acme/llama:7b\" = {input = 0, output = 0, cache_write = 0.5}\n": {"acme/llama:7b": {CacheWrite: &half}},
	} {
		e, err := load(content)
		assert.NilError(t, err, content)
		assert.DeepEqual(t, e.Prices, want)
		assert.DeepEqual(t, e.Guest(true).Prices, want)
	}
	for content, message := range map[string]string{
		"[prices.mine]\ninput = 2\n":             `[prices."mine"]: missing output`,
		"[prices.mine]\ncache_read = 2\n":        `[prices."mine"]: missing input`,
		"[prices.mine]\ninput = -1\noutput = 1":  "must be an amount in US dollars",
		"[prices.mine]\ninput = nan\noutput = 1": "must be an amount in US dollars",
		"[prices.mine]\ninputs = 1":              `did you mean "input"?`,
		"[prices]\nmine = 1":                     "prices.mine must be a table",
	} {
		_, err := load(content)
		assert.ErrorContains(t, err, message, content)
	}
}

// A low price loosens the limit of the cost.
func TestRepositoryMustNotSetPrices(t *testing.T) {
	for _, content := range []string{
		"[prices.mine]\ninput = 0\noutput = 0\n",
		"[prices]\n\"gpt-6.2-sol\" = {input = 0, output = 0}\n",
		"prices.\"claude-opus-5.5\".cache_read = 0\n",
	} {
		_, err := Load(Sources{Root: write(t, "ralph.toml", content)})
		assert.ErrorContains(t, err, "allowed only in your own configuration", content)
	}
}
