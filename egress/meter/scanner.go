package meter

import "slices"

const (
	// maxLevels is the depth to which the keys of a JSON text are kept. No figure is deeper.
	maxLevels = 5
	// maxToken bounds a key or a value that is kept, in bytes.
	maxToken = 128
)

// scanner reads JSON in pieces and reports its values by path. Its memory is constant. It
// reports arbitrary values for invalid JSON.
type scanner struct {
	// value receives a string without its quotes or a literal, and the keys that lead to it,
	// joined by dots. A value that was not kept is nil. Escape sequences in keys are not
	// decoded. Elements of an array at the top level count as documents; values in other
	// arrays are not reported.
	value func(path, value []byte, quoted bool)
	// end is called after each document.
	end func()

	depth   int
	arrays  [maxLevels + 1]bool // whether the container is an array, by depth
	keys    [maxLevels + 1]token
	isKey   bool // the next string is a key
	inside  scope
	escaped bool // the previous character was a backslash
	token   token
	path    []byte // reused
}

// scope is what the scanner is in.
type scope int

const (
	betweenTokens scope = iota
	inString
	inLiteral
)

// token is a string without its quotes, or a literal.
type token struct {
	bytes   [maxToken]byte
	length  int
	invalid bool // too long
	escaped bool // with an escape sequence
}

func (t *token) reset() { t.length, t.invalid, t.escaped = 0, false, false }

func (t *token) append(piece []byte) {
	if t.invalid = t.invalid || len(piece) > maxToken-t.length; !t.invalid {
		t.length += copy(t.bytes[t.length:], piece)
	}
}

// reset drops an incomplete document.
func (s *scanner) reset() { s.depth, s.isKey, s.inside, s.escaped = 0, false, betweenTokens, false }

// scan scans the next piece.
func (s *scanner) scan(piece []byte) {
	for len(piece) > 0 {
		switch s.inside {
		case inString:
			piece = piece[s.scanString(piece):]
		case inLiteral:
			n := slices.IndexFunc(piece, endsLiteral)
			if n < 0 {
				s.token.append(piece)
				return
			}
			s.token.append(piece[:n])
			s.inside = betweenTokens
			s.report(false)
			piece = piece[n:]
		default:
			s.scanByte(piece[0])
			if s.inside == inLiteral {
				continue // its first byte is part of it
			}
			piece = piece[1:]
		}
	}
}

// scanString scans the part of a string and returns its length.
func (s *scanner) scanString(piece []byte) int {
	if s.escaped {
		s.escaped = false
		s.token.append(piece[:1])
		return 1
	}
	n := slices.IndexFunc(piece, func(c byte) bool { return c == '"' || c == '\\' })
	if n < 0 {
		s.token.append(piece)
		return len(piece)
	}
	if piece[n] == '\\' {
		s.escaped, s.token.escaped = true, true
		s.token.append(piece[:n+1])
		return n + 1
	}
	s.token.append(piece[:n])
	s.inside = betweenTokens
	if s.isKey {
		s.isKey = false
		s.keys[s.depth] = s.token
	} else {
		s.report(true)
	}
	return n + 1
}

func endsLiteral(c byte) bool {
	switch c {
	case ',', ':', '{', '}', '[', ']', '"', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

func (s *scanner) scanByte(c byte) {
	switch c {
	case '{', '[':
		s.depth++
		if s.isKey = c == '{' && s.depth <= maxLevels; s.depth <= maxLevels {
			s.arrays[s.depth] = c == '['
			s.keys[s.depth].reset()
		}
	case '}', ']':
		s.depth, s.isKey = max(0, s.depth-1), false
		if s.depth == 0 || s.depth == 1 && s.arrays[1] {
			s.end()
		}
	case ',':
		s.isKey = s.depth > 0 && s.depth <= maxLevels && !s.arrays[s.depth]
	case '"':
		s.inside = inString
		s.token.reset()
	case ':', ' ', '\t', '\r', '\n':
	default:
		s.inside = inLiteral
		s.token.reset()
	}
}

// report reports the token as the value of the current path.
func (s *scanner) report(quoted bool) {
	if s.depth == 0 || s.depth > maxLevels {
		return
	}
	s.path = s.path[:0]
	for depth := 1; depth <= s.depth; depth++ {
		key := &s.keys[depth]
		switch {
		case s.arrays[depth] && depth == 1 && s.depth > 1:
			continue
		case s.arrays[depth] || key.invalid:
			return
		case len(s.path) > 0:
			s.path = append(s.path, '.')
		}
		s.path = append(s.path, key.bytes[:key.length]...)
	}
	var value []byte
	if !s.token.invalid && !s.token.escaped {
		value = s.token.bytes[:s.token.length]
	}
	s.value(s.path, value, quoted)
}
