package agentconfig

import (
	"net/url"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

var (
	// given is a name that gets a value: a header, a variable, a flag, a parameter of
	// an address, a member of JSON in a text. Before it can be a flag for headers.
	given = lazyregexp.New(`(?:(?:^|[\s"',\\])(-[A-Za-z]{0,6}H[ \t=]*|--?[\w-]*headers?[ \t=]+)[\\"']*)?` +
		`([^\s"'\x60\\=:?&#;,(){}|<>/]+)([\\"']*)([ \t]*)([=:])([ \t]*)`)
	// headerFlag is the flag that headers follow as an argument of their own, and the
	// end of names of lists and objects of headers.
	headerFlag = lazyregexp.New(`^-[A-Za-z]{0,6}H$|(?i:headers?)$`)
	// headerPart is in names of headers that are secret, beside what secretName has.
	// An author and a keyboard are no secrets.
	headerPart = lazyregexp.New(`(?i)(key|auth)([-_]|$)`)
	// header are names that are those of headers wherever they begin a text.
	header = lazyregexp.New(`(?i)^((proxy-)?authorization|(set-)?cookie|x-[\w-]*(` + secretWord + `|auth)|api-?key)$`)
	// shortName are names of secrets that are so short that other things have them too.
	shortName = lazyregexp.New(`(?i)^-{0,2}(key|auth|sig|signature|pass|pwd)$`)
	// secretEnd is how a name ends that is followed by the secret itself.
	secretEnd = lazyregexp.New(`(?i)` + secretWord + `s?$`)
	// jsonArgument begins with JSON, or with a flag that is joined with it.
	jsonArgument = lazyregexp.New(`^([\\"'\s]*\{|-)`)
	// count is the end of names such as max_tokens, where numbers are harmless.
	count  = lazyregexp.New(`(?i)tokens$`)
	number = lazyregexp.New(`^\d+\W*$`)
	// scheme stands before the secret in a header.
	scheme = lazyregexp.New(`(?i)^(bearer|basic|token|digest|apikey|negotiate)\s+`)
	// madeLater is a value that a shell makes when it runs, or one that a reader is to fill in.
	madeLater = lazyregexp.New(`^\$\(|^<[\w -]+>$`)
	// random is a word of the letters that keys have, with which no path begins.
	random = lazyregexp.New(`^[A-Za-z0-9_+-][A-Za-z0-9_+/=.~-]{7,}$`)
	// plain is a word that has no digits or only these, or is a version.
	plain = lazyregexp.New(`^(\D*|[\d\W]*|v?\d+\..*)$`)
	// user is the name in an address; a long one without a password can be a token.
	user = lazyregexp.New(`://([^/@\s:"'?#]{20,})@`)
)

// argument returns one text, which can be an argument of a program or a command
// line, without a secret in it. list is the name of the member that it belongs to,
// before the argument that it follows.
func (s *scrubber) argument(list, before, text string) string {
	kept, found := withoutNamed(text, headerFlag().MatchString(list) || headerFlag().MatchString(before))
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

// withoutNamed returns a text up to the first secret that is told by its name, with
// that name. Where more than one argument is in it, nothing is left: a shell fails on
// half a command line, and a hook that fails can stop the agent. isHeader says that
// the text is a header of a request.
func withoutNamed(text string, isHeader bool) (kept string, found bool) {
	if !strings.ContainsAny(text, "=:") {
		return text, false
	}
	for _, at := range given().FindAllStringSubmatchIndex(text, -1) {
		m := meeting{text: text, start: at[4], name: text[at[4]:at[5]], rest: text[at[1]:], quotedName: at[6] < at[7]}
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

// meeting is a name in a text, and what is given to it.
type meeting struct {
	text, name, rest             string
	start                        int // of the name
	isHeader, quotedName, spaced bool
}

func (m meeting) secretAssigned() bool {
	name := m.name
	if unescaped, err := url.QueryUnescape(name); err == nil {
		name = unescaped
	}
	named := secretName().MatchString(name)
	if !named && !shortName().MatchString(name) {
		return false // without a look at the value, which can be long, for each name in it
	}
	value := m.value(false)
	return !harmless(name, value) && (named && !m.spaced || looksRandom(value))
}

// secretAfterColon keeps prose alone, in which names such as "Token:" and even
// "Authorization:" are followed by words.
func (m meeting) secretAfterColon() bool {
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

// value returns what is given to the name, without the scheme before it: all that
// follows, or what is in quotes, or a word.
func (m meeting) value(all bool) string {
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
		rest = strings.TrimLeft(after, `"'`) // a shell puts the two together
	}
	rest = withoutScheme(rest)
	if end := strings.IndexAny(rest, " \t\r\n\"'`&#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.TrimRight(rest, `\`)
}

func withoutScheme(value string) string { return value[len(scheme().FindString(value)):] }

func harmless(name, value string) bool {
	return value == "" || reference().MatchString(value) || madeLater().MatchString(value) ||
		count().MatchString(name) && number().MatchString(value)
}

func secretHeader(name string) bool {
	return secretName().MatchString(name) || headerPart().MatchString(name)
}

// looksRandom reports whether a word is rather a key than one of a language.
func looksRandom(word string) bool {
	return random().MatchString(word) && (!plain().MatchString(word) || len(word) >= 24 && !strings.ContainsAny(word, ".-/"))
}
