package event

import (
	"strings"
	"unicode/utf8"
)

// Strip removes terminal control sequences and control characters from s,
// all but newline and tab. What an agent says comes from a model and from
// files of the repository: it must not move the cursor, retitle the window,
// or write to the clipboard.
func Strip(s string) string {
	if !needsStrip(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	endless := false // no string that begins from here on has an end
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\x1b' || r >= 0x80 && r <= 0x9f:
			n, unended := sequenceLen(s[i:], r, size, endless)
			i, endless = i+n, unended
		case unwanted(r):
			i += size
		default:
			b.WriteRune(r)
			i += size
		}
	}
	return b.String()
}

func needsStrip(s string) bool {
	return strings.ContainsFunc(s, unwanted) || !utf8.ValidString(s)
}

func unwanted(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f
}

// sequenceLen returns the length of the control sequence that the rune r, of
// size bytes, begins at the start of s, and whether it is known that s has no end
// of a string: looking for one again for each beginning would take for ever.
func sequenceLen(s string, r rune, size int, endless bool) (n int, unended bool) {
	if r == '\x1b' {
		return escapeLen(s, endless)
	}
	return controlLen(s, size, r-0x40, endless)
}

// escapeLen returns the length of the escape sequence at the start of s.
func escapeLen(s string, endless bool) (n int, unended bool) {
	i := 1
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
		i++
	}
	if i == len(s) || s[i] < 0x30 || s[i] > 0x7e {
		return 1, endless // not a sequence: only the ESC goes
	}
	if i > 1 {
		return i + 1, endless
	}
	return controlLen(s, 2, rune(s[1]), endless)
}

// controlLen returns the length of the control sequence at the start of s,
// whose introducer takes intro bytes and is, as a 7-bit final, kind.
func controlLen(s string, intro int, kind rune, endless bool) (n int, unended bool) {
	switch kind {
	case '[': // CSI: parameters, intermediates, one final byte
		i := intro
		for i < len(s) && s[i] >= 0x20 && s[i] <= 0x3f {
			i++
		}
		if i < len(s) && s[i] >= 0x40 && s[i] <= 0x7e {
			return i + 1, endless
		}
		return intro, endless
	case ']', 'P', 'X', '^', '_': // OSC, DCS, SOS, PM, APC: up to ST or BEL
		if endless {
			return intro, true
		}
		if end := stringEnd(s[intro:]); end >= 0 {
			return intro + end, false
		}
		// Not terminated: keep the text, it is harmless without introducer.
		return intro, true
	default:
		return intro, endless
	}
}

// stringEnd returns the index behind the first string terminator, or -1.
func stringEnd(s string) int {
	for i, r := range s {
		switch {
		case r == '\a':
			return i + 1
		case r == 0x9c:
			return i + utf8.RuneLen(r)
		case r == '\x1b' && strings.HasPrefix(s[i+1:], `\`):
			return i + 2
		}
	}
	return -1
}
