package egress

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestSecretsDoNotShow(t *testing.T) {
	s := Start{Routes: []Route{{Headers: map[string]Secret{"X-Api-Key": "sk-1234"}}}, Upstream: Upstream{HTTP: "http://u:sk-1234@proxy"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		text := fmt.Sprintf(format, s)
		assert.Assert(t, !strings.Contains(text, "sk-1234"), "%s shows it: %s", format, text)
	}
	encoded, err := json.Marshal(s)
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(encoded), "sk-1234"), "this is how it is handed over")
}

func TestReadStart(t *testing.T) {
	good := func() Start {
		return Start{
			Address: netip.MustParseAddr("172.31.240.2"),
			Policy:  Policy{Mode: Allowlist},
			Routes: []Route{{
				Prefix: "/anthropic", Target: "https://api.anthropic.com",
				Headers: map[string]Secret{"X-Api-Key": "sk-1234"}, Paths: []string{"/v1"},
			}},
			Upstream: Upstream{HTTPS: "http://user:sk-1234@proxy.example:3128", No: "localhost"},
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*Start)
		err    string
	}{
		{name: "good", change: func(*Start) {}},
		{name: "no address", change: func(s *Start) { s.Address = netip.Addr{} }, err: "invalid address of the proxy"},
		{name: "every address", change: func(s *Start) { s.Address = netip.IPv4Unspecified() }, err: "invalid address of the proxy"},
		{name: "no policy", change: func(s *Start) { s.Policy = Policy{} }, err: "invalid JSON"},
		{name: "prefix of two", change: func(s *Start) { s.Routes[0].Prefix = "/a/b" }, err: "one name"},
		{name: "no prefix", change: func(s *Start) { s.Routes[0].Prefix = "/" }, err: "one name"},
		{name: "prefix that is a step up", change: func(s *Start) { s.Routes[0].Prefix = "/.." }, err: "one name"},
		{name: "twice", change: func(s *Start) { s.Routes = append(s.Routes, s.Routes[0]) }, err: "duplicate route"},
		{name: "plain target", change: func(s *Start) { s.Routes[0].Target = "http://api.anthropic.com" }, err: "must be an https URL"},
		{name: "the user's own target", change: func(s *Start) { s.Routes[0].Target, s.Routes[0].Own = "http://192.168.1.2:11434/v1", true }},
		{name: "the user's own target is no file", change: func(s *Start) { s.Routes[0].Target, s.Routes[0].Own = "file:///etc", true }, err: "must be an https URL"},
		{name: "target with a user", change: func(s *Start) { s.Routes[0].Target = "https://sk-1234@api.anthropic.com" }, err: "must be an https URL"},
		{name: "target by address", change: func(s *Start) { s.Routes[0].Target = "https://10.0.0.1" }, err: "address"},
		{name: "target that is none", change: func(s *Start) { s.Routes[0].Target = "https://sk-1234:x/%zz" }, err: "not a URL"},
		{name: "request", change: func(s *Start) { s.Routes[0].Requests = []string{"/v1"} }, err: "is not a method and a path"},
		{name: "path", change: func(s *Start) { s.Routes[0].Paths = []string{"v1"} }, err: "does not begin with a slash"},
		{name: "no key", change: func(s *Start) { s.Routes[0].Headers["X-Api-Key"] = "" }, err: "cannot be sent"},
		{name: "key of two lines", change: func(s *Start) { s.Routes[0].Headers["X-Api-Key"] = "sk-1234\r\nX: y" }, err: "cannot be sent"},
		{name: "socks", change: func(s *Start) { s.Upstream.HTTPS = "socks5://u:sk-1234@proxy" }, err: "only http and https"},
		{name: "proxy that is no URL", change: func(s *Start) { s.Upstream.HTTP = "sk-1234@:" }, err: "is not a URL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := good()
			tc.change(&start)
			line, err := json.Marshal(start)
			assert.NilError(t, err)
			_, err = ReadStart(line)
			if tc.err == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.err)
			assert.Assert(t, !strings.Contains(err.Error(), "sk-1234"), "the error shows a secret: %v", err)
		})
	}
	_, err := ReadStart([]byte(`{"address":"172.31.240.2","policy":{"mode":"deny","rules":null},"upstream":{},"extra":1}`))
	assert.ErrorContains(t, err, "invalid JSON")
}

// Routes that are read can be used, and no error has a secret of theirs.
func FuzzReadRoutes(f *testing.F) {
	for _, seed := range []string{
		`[]`, `null`, `[{"prefix":"/a","target":"https://a.example","headers":{"X-Api-Key":"sk-1234"}}]`,
		`[{"prefix":"/a","target":"http://10.0.0.1","own":true}]`, `[{"sk-1234":1}]`, `[{"prefix":"/a","target":"https://sk-1234@a.example"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		routes, err := ReadRoutes(line)
		if err != nil {
			assert.Assert(t, !strings.Contains(err.Error(), "sk-1234"), err.Error())
			return
		}
		assert.NilError(t, CheckRoutes(routes))
	})
}
