// Package gitpath writes paths of any bytes as git reads and prints them.
package gitpath

import (
	"fmt"
	"strings"
)

// Ignore is the line of an exclude file for one path.
func Ignore(path string) string {
	var b strings.Builder
	b.WriteByte('/')
	for _, c := range []byte(path) {
		switch {
		case c < ' ' || c == 0x7f:
			b.WriteByte('?')
		case strings.IndexByte(`\*?[ `, c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Quote is a path as git prints it with core.quotePath.
func Quote(path string) string {
	var b strings.Builder
	special := false
	for _, c := range []byte(path) {
		i := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c)
		switch {
		case i >= 0:
			special = true
			b.WriteByte('\\')
			b.WriteByte(`abtnvfr"\`[i])
		case c < ' ' || c >= 0x7f:
			special = true
			_, _ = fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	if special {
		return `"` + b.String() + `"`
	}
	return path
}
