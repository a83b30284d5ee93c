package event

// quoted follows the strings of a line of JSON, across pieces. Its zero value
// stands at the beginning of a line.
type quoted struct {
	inside bool
	length int  // of the string so far
	cut    bool // the string is longer than maxString
	escape int  // bytes of an escape sequence that are still to come
}

// afterBackslash is an escape sequence of which nothing but the beginning is known.
const afterBackslash = -1

// appendCut appends piece to line, without what its strings have beyond maxString
// bytes. An escape sequence is kept or left out as a whole.
func (q *quoted) appendCut(line, piece []byte) []byte {
	for _, b := range piece {
		if !q.inside {
			q.inside, q.length, q.cut = b == '"', 0, false
			line = append(line, b)
			continue
		}
		switch {
		case q.escape == afterBackslash:
			q.escape = 0
			if b == 'u' {
				q.escape = 4
			}
		case q.escape > 0:
			q.escape--
		default:
			q.cut, q.inside = q.length >= maxString, b != '"'
			if b == '\\' {
				q.escape = afterBackslash
			}
		}
		q.length++
		if !q.cut || !q.inside {
			line = append(line, b)
		}
	}
	return line
}
