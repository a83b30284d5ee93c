package egress

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestNormalise(t *testing.T) {
	for _, tc := range []struct {
		name, host, want, err string
	}{
		{name: "plain", host: "github.com", want: "github.com"},
		{name: "case and trailing dot", host: "ALLOWED.EXAMPLE.", want: "allowed.example"},
		{name: "underscore", host: "_a.example", want: "_a.example"},
		{name: "numbers are fine but at the end", host: "163.com", want: "163.com"},
		{name: "punycode", host: "xn--mnchen-3ya.example", want: "xn--mnchen-3ya.example"},
		{name: "one label", host: "localhost", want: "localhost"},

		{name: "empty", host: "", err: "empty host name"},
		{name: "only a dot", host: ".", err: "empty host name"},
		{name: "two trailing dots", host: "a.example..", err: "empty label"},
		{name: "leading dot", host: ".a.example", err: "empty label"},
		{name: "NUL", host: "evil\x00.allowed.example", err: `invalid character '\x00'`},
		{name: "newline", host: "allowed.example\n", err: `invalid character '\n'`},
		{name: "space", host: "allowed.example evil", err: "invalid character ' '"},
		{name: "percent", host: "allowed%2eexample", err: "invalid character '%'"},
		{name: "user", host: "user@allowed.example", err: "invalid character '@'"},
		{name: "port", host: "allowed.example:22", err: "invalid character ':'"},
		{name: "slash", host: "allowed.example/x", err: "invalid character '/'"},
		{name: "wildcard", host: "*.example", err: "invalid character '*'"},
		{name: "dots of other scripts", host: "allowed。example", err: "punycode"},
		{name: "letters of other scripts", host: "аllowed.example", err: "punycode"},
		{name: "leading hyphen", host: "-oProxyCommand.example", err: "hyphen"},
		{name: "trailing hyphen", host: "a-.example", err: "hyphen"},
		{name: "long label", host: strings.Repeat("a", 64) + ".example", err: "label longer than 63"},
		{name: "long name", host: strings.Repeat("a.", 127), want: strings.TrimSuffix(strings.Repeat("a.", 127), ".")},
		{name: "too long name", host: strings.Repeat("a.", 127) + "a", err: "longer than 253"},

		{name: "IPv4", host: "1.2.3.4", err: "an address"},
		{name: "IPv4 with trailing dot", host: "1.2.3.4.", err: "an address"},
		{name: "hexadecimal", host: "0xcb007114", err: "an address"},
		{name: "hexadecimal in capitals", host: "0XCB007114", err: "an address"},
		{name: "empty hexadecimal", host: "0x", err: "an address"},
		{name: "hexadecimal part", host: "127.0.0x1", err: "an address"},
		{name: "one number", host: "3405803796", err: "an address"},
		{name: "octal", host: "0177.0.0.01", err: "an address"},
		{name: "short", host: "127.1", err: "an address"},
		{name: "name that ends in a number", host: "evil.example.1", err: "an address"},
		{name: "IPv6", host: "::1", err: "an address"},
		{name: "IPv6 in brackets", host: "[::ffff:169.254.169.254]", err: "an address"},
		{name: "IPv6 with zone", host: "fe80::1%eth0", err: "an address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Normalise(tc.host)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				assert.Equal(t, got, "")
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, got, tc.want)
		})
	}
}

func TestIsAddress(t *testing.T) {
	_, err := Normalise("10.0.0.1")
	assert.Assert(t, errors.Is(err, ErrAddress))
	_, err = Normalise("a b")
	assert.Assert(t, !errors.Is(err, ErrAddress))
}

func TestPrintable(t *testing.T) {
	assert.Equal(t, Printable("a-b.example"), "a-b.example")
	assert.Equal(t, Printable("2001:db8::1"), "2001:db8::1")
	assert.Equal(t, Printable("evil\x1b]0;x\a.example"), `"evil\x1b]0;x\a.example"`)
	assert.Equal(t, Printable("\u202egro.elpmaxe"), `"\u202egro.elpmaxe"`)
	assert.Equal(t, Printable(""), `""`)
}

func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"github.com", "ALLOWED.EXAMPLE.", "1.2.3.4", "0x7f.1", "[::1]", "a\x00b", "a..b", "。", "-a", "xn--a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, err := Normalise(host)
		if err != nil {
			assert.Equal(t, name, "")
			return
		}
		again, err := Normalise(name)
		assert.NilError(t, err)
		assert.Equal(t, again, name, "the normal form is not normal")
		assert.Assert(t, strings.EqualFold(name, strings.TrimSuffix(host, ".")), "%q became another name, %q", host, name)
		assert.Assert(t, len(name) > 0 && len(name) <= 253)
		assert.Equal(t, Printable(name), name)
	})
}
