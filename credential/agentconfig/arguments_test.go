package agentconfig

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"gotest.tools/v3/assert"
)

// plainKey has no well-known format.
const plainKey = "q7Wz0RkV" + "b2Lm9Xc4"

// inList returns settings of a tool server with these arguments.
func inList(t *testing.T, texts ...string) []byte {
	t.Helper()
	var content bytes.Buffer
	enc := json.NewEncoder(&content)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	assert.NilError(t, enc.Encode(map[string]any{"args": texts}))
	return content.Bytes()
}

func TestSecretsInArguments(t *testing.T) {
	list := func(texts ...string) []string { return texts }
	for _, tc := range []struct {
		name     string
		in, want []string
	}{
		{
			"header", list("mcp-remote", "https://host/mcp", "--header", "Authorization: Bearer abc"),
			list("mcp-remote", "https://host/mcp", "--header", "Authorization:"),
		},
		{"header without a blank", list("--header", "Authorization:abc"), list("--header", "Authorization:")},
		{"header in small letters", list("--header", "x-auth: abc def"), list("--header", "x-auth:")},
		{"header of cookies", list("-H", "Cookie: a=b; c=d"), list("-H", "Cookie:")},
		{"header beside a reference", list("-H", "Cookie: ${A}; session=abc"), list("-H", "Cookie:")},
		{"joined header", list("--header=Authorization: Bearer abc"), list("--header=Authorization:")},
		{"joined header of cookies", list("--header=Cookie: $A; s=abc"), list("--header=Cookie:")},
		{"short flag", list("-H", "X-Key: abc"), list("-H", "X-Key:")},
		{"joined short flag", list("-HAuthorization: Bearer abc"), list("-HAuthorization:")},
		{"proxy", list("--proxy-header", "Proxy-Authorization: Basic abc"), list("--proxy-header", "Proxy-Authorization:")},
		{"no flag", list("Authorization: Bearer abc", "x-api-key:abc", "Cookie: a=b; c=d"), list("Authorization:", "x-api-key:", "Cookie:")},
		{"no flag, some name", list("session token: " + plainKey), list("")},
		{"member of JSON", list("--config", `{"n": 1, "apiKey": "abc"}`), list("--config", "")},
		{"escaped JSON", list("--config", `"{\"apiKey\":\"abc\"}"`), list("--config", `"{\"apiKey\":`)},
		{"first parameter", list("https://host/mcp?api_key=abc&b=c"), list("https://host/mcp?api_key=")},
		{"second parameter", list("https://host/mcp?profile=me&api_key=abc"), list("https://host/mcp?profile=me&api_key=")},
		{"escaped parameter", list("https://host/mcp?a=b&api%5Fkey=abc"), list("https://host/mcp?a=b&api%5Fkey=")},
		{"parameter of few letters", list("https://host/mcp?a=b&key=" + plainKey), list("https://host/mcp?a=b&key=")},
		{"fragment", list("https://host/mcp#a=b&access_token=abc"), list("https://host/mcp#a=b&access_token=")},
		{"fragment alone", list("https://host/mcp#token=abc"), list("https://host/mcp#token=")},
		{"after a reference", list("https://host/?token=$T&secret=abc"), list("https://host/?token=$T&secret=")},
		{"address in a flag", list("--url=https://host/?a=b&token=abc"), list("--url=https://host/?a=b&token=")},
		{"password", list("https://u:p@host/", "redis://:p@host:6379/", "https://"+plainKey+"abcd@host/"), list("", "", "")},
		{"second variable", list("A=b API_TOKEN=abc run"), list("")},
		{"quoted variable", list(`API_TOKEN="abc def" run`), list("API_TOKEN=")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, what, err := clean("codex", "settings.json", inList(t, tc.in...))
			assert.NilError(t, err)
			assert.Equal(t, string(got), string(inList(t, tc.want...)))
			assert.Equal(t, what, "is copied without args")
		})
	}
}

func TestSecretsInCommandsAndHeaders(t *testing.T) {
	for _, tc := range []struct{ name, content, want, what string }{
		{
			"hook", `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"curl -sH 'X: y' -H 'Authorization: Bearer abc' https://host"}]}]}}`,
			`{"hooks":{"Stop":[{"hooks":[{"command":"","type":"command"}]}]}}`, "is copied without command",
		},
		{"hook with quotes", `{"command":"sh -c \"curl -H \\\"x-auth: abc\\\" https://host\""}`, `{"command":""}`, "is copied without command"},
		{"hook without quotes", `{"command":"wget --header=Authorization:abc https://host"}`, `{"command":""}`, "is copied without command"},
		{"hook with an address", `{"command":"curl 'https://host/?a=b&token=abc' -o x"}`, `{"command":""}`, "is copied without command"},
		{"address", `{"url":"https://host/mcp?profile=me&api_key=abc"}`, `{"url":"https://host/mcp?profile=me&api_key="}`, "is copied without url"},
		{"headers", `{"headers":{"X-Auth":"abc","X-Key":"$K","X-Author":"me"}}`, `{"headers":{"X-Author":"me","X-Key":"$K"}}`, "is copied without X-Auth"},
		{"list of headers", `{"headers":["X-Auth: abc","X-Author: me"]}`, `{"headers":["X-Auth:","X-Author: me"]}`, "is copied without headers"},
		{"name", `{"urls":{"https://host/?key=` + plainKey + `":1}}`, `{"urls":{}}`, "is copied without a name with a secret in it"},
		{"well-known name", `{"a":{"` + someKey + `":1}}`, `{"a":{}}`, "is copied without a name with a secret in it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, what, err := clean("claude", "settings.json", []byte(tc.content))
			assert.NilError(t, err)
			var short bytes.Buffer
			assert.NilError(t, json.Compact(&short, got))
			assert.Equal(t, short.String(), tc.want)
			assert.Equal(t, what, tc.what)
		})
	}
}

func TestHarmlessArgumentsAreKept(t *testing.T) {
	for _, args := range [][]string{
		{"--header", "Authorization: Bearer ${TOKEN}"},
		{"--header", "Authorization:${AUTH_HEADER}"},
		{"--header", "authorization: bearer $TOKEN", "--header", "X-Api-Key: {env:KEY}"},
		{"--header=Authorization: Bearer ${TOKEN}", "https://host/mcp"},
		{"-HAuthorization: Basic $B", "https://host/mcp"},
		{"-H", "Authorization:", "https://host"},
		{"-H", "Accept: text/html", "-H", "X-Author: me", "-H", "X-Keyboard: us", "-H", "Content-Type:text/plain"},
		{"curl -sf -H 'Authorization: Bearer '$TOKEN https://host:8080/a"},
		{`curl -H "Authorization: Bearer $TOKEN" -H "Accept: a" https://host/?a=b`},
		{`sh -c "curl -H \"Authorization: Bearer ${TOKEN}\" https://host"`},
		{`curl -H "Authorization: token $(gh auth token)" https://host`},
		{"curl -H Authorization:$TOKEN https://host"},
		{`API_TOKEN="$T" run`, "API_TOKEN=$T run --all", "API_TOKEN=$(gh auth token) run"},
		{"Call it with curl -H 'Authorization: Bearer <token>' first."},
		{"--author=me", "--author", "me: myself and I", "--keyboard=us-international1", "--keyboard", "us", "--key-bindings=vim12345"},
		{"--oauth", "--oauth-port=3334", "--auth-timeout", "60", "--oauth=true", "--static-oauth-client-metadata", `{"scope": "a b"}`},
		{"https://host/mcp?oauth=true&author=me&keyboard=us&monkey=abcdefgh12345&key=name&auth=none#part"},
		{"https://host/mcp?api_key=${KEY}&profile=me", "https://host/mcp?profile=me&token={env:T}#$X"},
		{"https://tokens.host/secrets/mcp?profile=me", "https://me@host/", "ssh://git@host:22/a"},
		{"http://token-server:8080/mcp", "run", "token:check", "mcp/secrets:v1.2.3-alpine3", "-v", "/home/me/secrets:/run/secrets:ro"},
		{"Bash(gh auth token:*)", "Bash(secret-tool:*)", "Read(./secrets/**)", "secrets:read"},
		{"Authorization: none of the tools needs it.", "Authorization: Bearer tokens are never logged.", "key: value", "Token: none"},
		{"Never print a token: it is a secret.\nPassword: ask me.\nCookie: none are set by this site", "Keys: a, b"},
		{"Say which tokens are unused, and write a=b.", `Answer with {"token": "string", "password": "string"}.`},
		{"max_tokens=4096", "--a=b --max-tokens=4096"},
	} {
		t.Run(args[0], func(t *testing.T) {
			content := inList(t, args...)
			got, what, err := clean("claude", "settings.json", content)
			assert.NilError(t, err)
			assert.Equal(t, string(got), string(content))
			assert.Equal(t, what, "")
		})
	}
}

// No well-known key in a document is copied.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{`{"a":["x"]}`, `{"env":{"A":"b"}}`, "[a]\nb = 1\n", `[[["x"]]]`, `"x"`, "{"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, content string, json bool) {
		name := "config.toml"
		if json {
			name = "settings.json"
		}
		got, _, err := clean("claude", name, []byte(strings.ReplaceAll(content, `"x"`, `"`+someKey+`"`)))
		if err == nil && strings.Contains(string(got), someKey) {
			t.Errorf("%q lets the key through: %s", content, got)
		}
	})
}

// A key without a well-known format is not copied if it has the name of a secret.
func FuzzCleanOfPlainKeys(f *testing.F) {
	for _, seed := range []string{"", "--verbose", "npx -y", "https://host", "$T", "a=b", "it's", `"`, "-H", "X: y", "<a>", `\`} {
		f.Add(seed, "", true)
		f.Add(seed, " tail", false)
		f.Add("", seed, true)
	}
	f.Fuzz(func(t *testing.T, lead, tail string, asJSON bool) {
		key := plainKey + tail
		document := map[string]any{
			"args": []string{
				lead, "--header", "Authorization: Bearer " + key,
				lead, "-H", "Cookie: " + key,
				lead, "-HX-Auth: " + key,
				lead, "--header=Proxy-Authorization: Basic " + key,
				lead, "--api-key", key,
				lead, "https://host/?a=b&api_key=" + key,
				lead, "https://host/#a=b&token=" + key,
			},
			"command": lead + " curl -H 'Authorization: Bearer " + key + "' https://host",
			"run":     lead + " curl --header X-Token:" + key,
			"start":   lead + " API_TOKEN=" + key + " run",
			"url":     "https://host/" + lead + "?a=b&password=" + key,
			"headers": map[string]any{"X-Auth": key},
		}
		name, marshal := "config.toml", toml.Marshal
		if asJSON {
			name, marshal = "settings.json", json.Marshal
		}
		content, err := marshal(document)
		assert.NilError(t, err)
		got, _, err := clean("claude", name, content)
		if err == nil && strings.Contains(string(got), plainKey) && !strings.Contains(lead, plainKey) {
			t.Errorf("%q and %q let the key through: %s", lead, tail, got)
		}
	})
}
