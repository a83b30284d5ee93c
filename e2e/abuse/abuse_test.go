package abuse

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestProbesHaveUniqueNames(t *testing.T) {
	probes, err := Probes()
	assert.NilError(t, err)
	seen := map[string]string{}
	for _, p := range probes {
		assert.Check(t, is.Equal(seen[p.Name], ""), "%s is in %s too", p.Name, p.Category)
		assert.Check(t, p.Script != "", p.Name)
		seen[p.Name] = p.Category
	}
	for _, category := range []string{"calls", "devices", "files", "git", "identity", "namespaces", "network", "proxy", "resources", "secrets"} {
		assert.Check(t, is.Contains(seen, probeOf(probes, category)), category)
	}
}

func probeOf(probes []Probe, category string) string {
	for _, p := range probes {
		if p.Category == category {
			return p.Name
		}
	}
	return ""
}

func TestParse(t *testing.T) {
	got, err := parse("x", "# What it is about\n#: a-1 held\nfirst\nsecond\n#: b differs\nthird\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, got, []Probe{{"a-1", "x", Held, "first\nsecond\n"}, {"b", "x", "", "third\n"}})
	for _, bad := range []string{"#: a\n", "#: a fine\n", "#: A held\n", "#:a held\n"} {
		_, err := parse("x", bad)
		assert.ErrorContains(t, err, "not a probe's first line")
	}
}

func FuzzParseResults(f *testing.F) {
	f.Add("a\theld\t\nb\tbroke\twhy\tnot\n")
	f.Add("a\theld\n")
	f.Add("a\theld\t\na\tbroke\t\n")
	f.Fuzz(func(t *testing.T, report string) {
		all, err := ParseResults(report)
		if err != nil {
			return
		}
		for name, r := range all {
			again, err := ParseResults(r.String() + "\n")
			assert.NilError(t, err)
			assert.DeepEqual(t, again, map[string]Result{name: r})
		}
	})
}
