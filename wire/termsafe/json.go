package termsafe

import (
	"encoding/json"
	"fmt"
	"strings"
)

// JSON escapes the control characters that JSON allows in strings. Stripping a control sequence could remove a
// quotation mark. Other text is returned as it is.
func JSON(text string) string {
	isControl := func(r rune) bool { return r >= 0x7f && r <= 0x9f }
	if !strings.ContainsFunc(text, isControl) || !json.Valid([]byte(text)) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isControl(r) {
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			_, _ = b.WriteRune(r)
		}
	}
	return b.String()
}
