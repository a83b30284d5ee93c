package top

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"gotest.tools/v3/golden"
)

// The picture in the documentation is a screen.
func TestScreenshot(t *testing.T) {
	m := dashboard(104, 26, true, fleet()...)
	press(m, "down", "down", "down", "down")
	m.withOutput(loopOutput...)
	golden.Assert(t, svg(m.screen(), m.width, m.height), "../../../docs/images/top.svg")
}

// Size of a character, and colors of a terminal.
const (
	charWidth  = 8.4
	lineHeight = 18.0
	background = "#1e1e2e"
	foreground = "#cdd6f4"
)

var terminalColors = map[string]string{red: "#f38ba8", green: "#a6e3a1", yellow: "#f9e2af", cyan: "#89dceb", faint: "#7f849c", bold: "#ffffff"}

// svg draws a screen.
func svg(screen string, width, height int) string {
	var b strings.Builder
	w, h := float64(width)*charWidth+24, float64(height)*lineHeight+24
	_, _ = fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="docker ralph top">`+"\n", w, h, w, h)
	_, _ = fmt.Fprintf(&b, `<rect width="%g" height="%g" rx="8" fill="%s"/>`+"\n", w, h, background)
	b.WriteString(`<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" xml:space="preserve">` + "\n")
	runs := regexp.MustCompile(`\x1b\[(\d*)m|[^\x1b]+`)
	for row, line := range strings.Split(screen, "\n") {
		column, style := 0, ""
		for _, run := range runs.FindAllStringSubmatch(line, -1) {
			if strings.HasPrefix(run[0], "\x1b") {
				style = run[1]
				continue
			}
			drawRun(&b, run[0], column, row, style)
			column += ansi.StringWidth(run[0])
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

func drawRun(b *strings.Builder, text string, column, row int, style string) {
	x, y := 12+float64(column)*charWidth, 12+float64(row)*lineHeight
	fill := foreground
	if color, known := terminalColors[style]; known {
		fill = color
	}
	if style == mark {
		_, _ = fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%g" fill="%s"/>`+"\n", x, y, float64(ansi.StringWidth(text))*charWidth, lineHeight, foreground)
		fill = background
	}
	// Every part has its own position: fonts differ in the width of a character.
	for _, part := range regexp.MustCompile(`\S+(?: \S+)*`).FindAllStringIndex(text, -1) {
		before, shown := text[:part[0]], text[part[0]:part[1]]
		_, _ = fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="%s" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
			x+float64(ansi.StringWidth(before))*charWidth, y+13, fill, float64(ansi.StringWidth(shown))*charWidth, html.EscapeString(shown))
	}
}
