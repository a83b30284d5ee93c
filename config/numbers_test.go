package config

import (
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2/unstable"
	"gotest.tools/v3/assert"
)

func TestAllNumbersCanBeQuoted(t *testing.T) {
	var found int
	for _, s := range settings() {
		if s.form != intForm && s.form != floatForm {
			continue
		}
		found++
		for _, kind := range []unstable.Kind{unstable.Integer, unstable.String} {
			got, err := s.read(node{kind: kind, text: "4"})
			assert.NilError(t, err, s.key)
			assert.Equal(t, got, "4", s.key)
		}
	}
	assert.Assert(t, found > 8)
}

func TestUserTemplateHasNotifications(t *testing.T) {
	_, text, err := UserFile(t.TempDir())
	assert.NilError(t, err)
	for _, line := range []string{"# [notify]", "# command = []", `# webhook = ""`} {
		assert.Assert(t, strings.Contains(text, "\n"+line), line)
	}
}
