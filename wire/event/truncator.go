package event

// truncator truncates the strings of a line of JSON that comes in pieces, and marks
// them with "…". Its zero value
// is for the start of a line.
type truncator struct {
	inside  bool // a string
	length  int  // of the string so far
	escape  int  // remaining bytes of an escape sequence
	dropped bool // the string is longer than maxString
}

// unknownEscape is an escape sequence of which only the backslash is known.
const unknownEscape = -1

// append appends piece to line, without what its strings have beyond maxString bytes. An
// escape sequence is appended as a whole or not at all.
func (t *truncator) append(line, piece []byte) []byte {
	for _, b := range piece {
		if !t.inside {
			t.inside, t.length, t.dropped = b == '"', 0, false
			line = append(line, b)
			continue
		}
		switch {
		case t.escape == unknownEscape:
			t.escape = 0
			if b == 'u' {
				t.escape = 4
			}
		case t.escape > 0:
			t.escape--
		default:
			t.inside = b != '"'
			if !t.dropped && t.inside && t.length >= maxString {
				t.dropped, line = true, append(line, "…"...)
			}
			if b == '\\' {
				t.escape = unknownEscape
			}
		}
		t.length++
		if !t.dropped || !t.inside {
			line = append(line, b)
		}
	}
	return line
}
