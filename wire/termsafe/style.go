package termsafe

import (
	"strconv"
	"strings"
)

// reset restores the terminal's default colors.
const reset = "\x1b[0m"

// style is the style of text. The zero value is the terminal's default.
type style struct {
	bold, dim, italic, underlined, reversed, struck bool
	hue                                             string // parameter of the foreground; "" for the default
}

// apply applies the parameters of an SGR sequence, and returns the allowed ones. It drops
// conceal (8), blinking, fonts, backgrounds, and foregrounds that may be the terminal's
// background: black, white, grays, and colors by number.
func (s *style) apply(parameters string) (allowed []string) {
	all := strings.Split(parameters, ";")
	for i := 0; i < len(all); i++ {
		switch p := all[i]; p {
		case "38", "48", "58": // a color by number: "38;5;N" or "38;2;R;G;B"
			if i+1 < len(all) {
				i += map[string]int{"5": 2, "2": 4}[all[i+1]]
			}
		default:
			if s.set(p) {
				allowed = append(allowed, p)
			}
		}
	}
	return allowed
}

// set applies one parameter, if it is allowed.
func (s *style) set(parameter string) bool {
	switch parameter {
	case "", "0", "00":
		*s = style{}
	case "1", "01":
		s.bold = true
	case "2", "02":
		s.dim = true
	case "22":
		s.bold, s.dim = false, false
	case "3", "03", "23":
		s.italic = parameter != "23"
	case "4", "04", "24":
		s.underlined = parameter != "24"
	case "7", "07", "27":
		s.reversed = parameter != "27"
	case "9", "09", "29":
		s.struck = parameter != "29"
	case "39":
		s.hue = ""
	default:
		n, err := strconv.Atoi(parameter)
		if err != nil || (n < 31 || n > 36) && (n < 91 || n > 96) {
			return false
		}
		s.hue = parameter
	}
	return true
}

// sequence returns the SGR sequence that sets the style after a reset.
func (s style) sequence() string {
	var parameters []string
	for _, attribute := range []struct {
		set  bool
		name string
	}{{s.bold, "1"}, {s.dim, "2"}, {s.italic, "3"}, {s.underlined, "4"}, {s.reversed, "7"}, {s.struck, "9"}, {s.hue != "", s.hue}} {
		if attribute.set {
			parameters = append(parameters, attribute.name)
		}
	}
	if parameters == nil {
		return ""
	}
	return "\x1b[" + strings.Join(parameters, ";") + "m"
}
