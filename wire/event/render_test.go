package event

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestFailedToolCallsAreRendered(t *testing.T) {
	for name, tc := range map[string]struct {
		result ToolResult
		want   string
	}{
		"success":     {ToolResult{Text: "ok"}, ""},
		"no output":   {ToolResult{Failed: true}, "   ✗ failed\n"},
		"one line":    {ToolResult{Failed: true, Text: "EACCES: permission denied\n"}, "   ✗ EACCES: permission denied\n"},
		"three lines": {ToolResult{Failed: true, Text: "Exit code 1\na\n b"}, "   ✗ Exit code 1\n     a\n      b\n"},
		"many lines":  {ToolResult{Failed: true, Text: strings.Repeat("x\n", 50)}, "   ✗ x\n     x\n     x\n     …\n"},
		"long line":   {ToolResult{Failed: true, Text: strings.Repeat("é", 300)}, "   ✗ " + strings.Repeat("é", 200) + "…\n"},
	} {
		assert.Equal(t, Render(tc.result), tc.want, name)
	}
}
