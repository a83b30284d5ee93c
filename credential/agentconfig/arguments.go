package agentconfig

import (
	"net/url"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

var (
	// given is a name with a value: a header, variable, flag, URL parameter or JSON member. A
	// flag for headers may precede it.
	given = lazyregexp.New(`(?:(?:^|[\s"',\\])(-[A-Za-z]{0,6}H[ \t=]*|--?[\w-]*headers?[ \t=]+)[\\"']*)?` +
		`([^\s"'\x60\\=:?&#;,(){}|<>/]+)([\\"']*)([ \t]*)([=:])([ \t]*)`)
	// headerFlag is a flag whose next argument is a header, or the end of the name of a list or
	// object of headers.
	headerFlag = lazyregexp.New(`^-[A-Za-z]{0,6}H$|(?i:headers?)$`)
	// headerPart is a part of the names of secret headers, in addition to secretName. It does
	// not match "author" and "keyboard".
	headerPart = lazyregexp.New(`(?i)(key|auth)([-_]|$)`)
	// header are names that are headers at the beginning of any string.
	header = lazyregexp.New(`(?i)^((proxy-)?authorization|(set-)?cookie|x-[\w-]*(` + secretWord + `|auth)|api-?key)$`)
	// shortName are short names, which not only secrets have.
	shortName = lazyregexp.New(`(?i)^-{0,2}(key|auth|sig|signature|pass|pwd)$`)
	// secretEnd is the end of a name whose value is the secret itself.
	secretEnd = lazyregexp.New(`(?i)` + secretWord + `s?$`)
	// jsonArgument is the beginning of JSON, or of a flag that is joined with it.
	jsonArgument = lazyregexp.New(`^([\\"'\s]*\{|-)`)
	// count is the end of names such as max_tokens, whose numbers are harmless.
	count  = lazyregexp.New(`(?i)tokens$`)
	number = lazyregexp.New(`^\d+\W*$`)
	// scheme precedes the secret in a header.
	scheme = lazyregexp.New(`(?i)^(bearer|basic|token|digest|apikey|negotiate)\s+`)
	// placeholder is a command substitution, or a value to be filled in.
	placeholder = lazyregexp.New(`^\$\(|^<[\w -]+>$`)
	// random is a word of the characters of keys that is not a path.
	random = lazyregexp.New(`^[A-Za-z0-9_+-][A-Za-z0-9_+/=.~-]{7,}$`)
	// plain is a word without digits, a number, or a version.
	plain = lazyregexp.New(`^(\D*|[\d\W]*|v?\d+\..*)$`)
	// user is a long user name in a URL without a password, which can be a token.
	user = lazyregexp.New(`://([^/@\s:"'?#]{20,})@`)
)

// argument removes a secret from a string, which can be an argument or a command line. list
// is the name of its member, before the preceding argument.
func (s *scrubber) argument(list, before, text string) string {
	kept, found := cutNamedSecret(text, headerFlag().MatchString(list) || headerFlag().MatchString(before))
	follows := strings.HasPrefix(before, "-") && !strings.ContainsAny(before, "=: ") && secretName().MatchString(before)
	if follows && !found && !strings.HasPrefix(text, "-") && !reference().MatchString(text) || wellKnown().MatchString(kept) || namesToken(kept) {
		kept, found = "", true
	}
	if found {
		s.removed = append(s.removed, list)
	}
	return kept
}

func namesToken(text string) bool {
	found := user().FindStringSubmatch(text)
	return found != nil && looksRandom(found[1])
}

// cutNamedSecret cuts a string after the name of the first named secret. Of a command line,
// it returns nothing: half of one fails, and a failing hook can stop the agent. isHeader
// says that the string is a header of a request.
func cutNamedSecret(text string, isHeader bool) (kept string, found bool) {
	if !strings.ContainsAny(text, "=:") {
		return text, false
	}
	for _, at := range given().FindAllStringSubmatchIndex(text, -1) {
		m := assignment{text: text, start: at[4], name: text[at[4]:at[5]], rest: text[at[1]:], quotedName: at[6] < at[7]}
		m.isHeader = at[2] >= 0 || isHeader && m.start == 0
		m.spaced = at[8] < at[9] || at[12] < at[13]
		var secret bool
		if text[at[10]] == '=' {
			secret = m.secretAssigned()
		} else {
			secret = m.secretAfterColon()
		}
		switch {
		case secret && strings.ContainsAny(text[:m.start], " \t\n"):
			return "", true
		case secret:
			return text[:at[11]], true
		}
	}
	return text, false
}

// assignment is a name in a string, and its value.
type assignment struct {
	text, name, rest             string
	start                        int // of the name
	isHeader, quotedName, spaced bool
}

func (m assignment) secretAssigned() bool {
	name := m.name
	if unescaped, err := url.QueryUnescape(name); err == nil {
		name = unescaped
	}
	named := secretName().MatchString(name)
	if !named && !shortName().MatchString(name) {
		return false // the value can be long, and every name in it is checked
	}
	value := m.value(false)
	return !harmless(name, value) && (named && !m.spaced || looksRandom(value))
}

// secretAfterColon ignores prose, in which words follow names such as "Token:" and even
// "Authorization:".
func (m assignment) secretAfterColon() bool {
	if !secretHeader(m.name) && !header().MatchString(m.name) {
		return false
	}
	whole := m.start == 0 && !strings.Contains(m.text, "\n")
	value := m.value(whole || m.isHeader && m.start == 0)
	word, _, more := strings.Cut(value, " ")
	switch {
	case harmless(m.name, value):
		return false
	case m.isHeader && secretHeader(m.name):
		return true
	case whole && header().MatchString(m.name) && (!more || strings.Contains(word, "=")):
		return true
	case m.quotedName && secretName().MatchString(m.name) && jsonArgument().MatchString(m.text):
		return true
	default:
		return secretEnd().MatchString(m.name) && looksRandom(word)
	}
}

// value returns the value without its scheme: the rest of the string, a quoted string, or a
// word.
func (m assignment) value(all bool) string {
	if all {
		return withoutScheme(strings.TrimSpace(m.rest))
	}
	rest, quote := m.rest, ""
	if before := m.text[:m.start]; !m.quotedName && (strings.HasSuffix(before, `"`) || strings.HasSuffix(before, "'")) {
		quote = before[len(before)-1:]
	} else if bare := strings.TrimLeft(rest, `\`); strings.HasPrefix(bare, `"`) || strings.HasPrefix(bare, "'") {
		quote, rest = bare[:1], bare[1:]
	}
	if quote != "" {
		inside, after, _ := strings.Cut(rest, quote)
		if inside = withoutScheme(strings.TrimRight(inside, `\`)); inside != "" {
			return inside
		}
		rest = strings.TrimLeft(after, `"'`) // a shell concatenates both
	}
	rest = withoutScheme(rest)
	if end := strings.IndexAny(rest, " \t\r\n\"'`&#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.TrimRight(rest, `\`)
}

func withoutScheme(value string) string { return value[len(scheme().FindString(value)):] }

func harmless(name, value string) bool {
	return value == "" || reference().MatchString(value) || placeholder().MatchString(value) ||
		count().MatchString(name) && number().MatchString(value)
}

func secretHeader(name string) bool {
	return secretName().MatchString(name) || headerPart().MatchString(name)
}

// looksRandom reports whether a word looks like a key.
func looksRandom(word string) bool {
	return random().MatchString(word) && (!plain().MatchString(word) || len(word) >= 24 && !strings.ContainsAny(word, ".-/"))
}
