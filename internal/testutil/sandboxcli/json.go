package sandboxcli

import (
	"encoding/json"
	"fmt"
	"io"
)

// updateNotice is what sbx shows once in 24 hours. That it comes after the
// JSON on stdout, in a box, and the words "Docker Sandboxes Update Available"
// are MEAS v0.35 S31; the rest is ?.
const updateNotice = `
╭──────────────────────────────────────────────╮
│                                              │
│      Docker Sandboxes Update Available       │
│                                              │
│   A new version is available: v99.0.0        │
│   Run your package manager to update.        │
│                                              │
╰──────────────────────────────────────────────╯
`

// printJSON prints a result.
func (c *call) printJSON(v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return c.printDocument(string(content) + "\n")
}

func (c *call) printDocument(text string) error {
	if c.cli == sbx && c.settings.Faults.UpdateNotice {
		text += updateNotice
	}
	if _, err := io.WriteString(c.stdout, text); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
