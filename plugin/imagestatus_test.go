package plugin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/assert/opt"

	"github.com/docker-ralph/docker-ralph/lifecycle/images"
)

func statuses() []images.Status {
	created := time.Now().Add(-3 * time.Hour).UTC()
	return []images.Status{
		{
			Image: "agent-loop-sandbox-shell-shop:v00000002", Kind: "project", Agent: "shell", Project: "shop",
			Base: "agent-loop-sandbox-shell:v00000001", UsedBy: []string{}, Current: true, Change: "build", Status: "not built yet",
		},
		{
			Image: "agent-loop-sandbox-shell:v00000001", ID: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", Kind: "agent", Agent: "shell",
			Base: "registry.example/a/very/long/name/of/an/image:latest", Created: &created, Size: 166068743, UsedBy: []string{"ralph-a", "ralph-b", "ralph-c"}, Status: "in use",
		},
	}
}

// words are the lines with every run of blanks as one.
func words(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestWriteImages(t *testing.T) {
	for _, tc := range []struct {
		name, format string
		trunc        bool
		want         string
	}{
		{"table", "table", true, `IMAGE KIND AGENT PROJECT BASE CREATED SIZE USED BY STATUS
agent-loop-sandbox-shell-shop:v00000002 * project shell shop agent-loop-sandbox-shell:v00000001 not built yet
agent-loop-sandbox-shell:v00000001 agent shell registry.example/a/very/long/name/of/an… 3 hours ago 166MB ralph-a and 2 more in use`},
		{"whole table", "table", false, `IMAGE KIND AGENT PROJECT BASE CREATED SIZE USED BY STATUS
agent-loop-sandbox-shell-shop:v00000002 * project shell shop agent-loop-sandbox-shell:v00000001 not built yet
agent-loop-sandbox-shell:v00000001 agent shell registry.example/a/very/long/name/of/an/image:latest 3 hours ago 166MB ralph-a, ralph-b, ralph-c in use`},
		{"own table", `table {{.ID}}\t{{.Change}}\t{{.Status}}`, true, "IMAGE ID CHANGE STATUS\nbuild not built yet\n0123456789ab in use"},
		{"template", "{{.Image}}={{.Current}}", true, "agent-loop-sandbox-shell-shop:v00000002=true\nagent-loop-sandbox-shell:v00000001=false"},
		{"template in JSON", "{{json .Status}}", true, "\"not built yet\"\n\"in use\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			assert.NilError(t, writeImages(&out, tc.format, tc.trunc, statuses()))
			assert.Equal(t, words(out.String()), tc.want)
		})
	}
	t.Run("JSON", func(t *testing.T) {
		var out bytes.Buffer
		assert.NilError(t, writeImages(&out, "json", true, statuses()))
		var got []images.Status
		assert.NilError(t, json.Unmarshal(out.Bytes(), &got))
		assert.DeepEqual(t, got, statuses(), opt.TimeWithThreshold(time.Minute))
		for _, field := range []string{`"image": "agent`, `"id": "sha256:`, `"kind"`, `"agent"`, `"project"`, `"base"`, `"created": null`, `"size"`, `"used_by": []`, `"current": true`, `"change": "build"`, `"status"`} {
			assert.Assert(t, cmp.Contains(out.String(), field))
		}
		out.Reset()
		assert.NilError(t, writeImages(&out, "json", true, []images.Status{}))
		assert.Equal(t, out.String(), "[]\n")
	})
	for _, format := range []string{"", "{{.Image", "{{.Nothing}}"} {
		t.Run("wrong "+format, func(t *testing.T) {
			assert.Assert(t, writeImages(&bytes.Buffer{}, format, true, statuses()) != nil)
		})
	}
}
