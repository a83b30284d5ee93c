package credential

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"

	"github.com/docker-ralph/docker-ralph/egress"
)

func TestParseGitRemote(t *testing.T) {
	for _, tc := range []struct {
		url, host, path string
		bare            bool
	}{
		{"https://github.com/acme/shop.git", "github.com", "/acme/shop", false},
		{"https://GitHub.com/acme/shop/", "github.com", "/acme/shop", true},
		{"https://una:secret@git.example:8443/a/b/c.git", "git.example:8443", "/a/b/c", false},
		{"https://git.example:443/acme/.github", "git.example", "/acme/.github", true},
		{"git@github.com:acme/shop.git", "github.com", "/acme/shop", false},
		{"ssh://git@git.example:2222/acme/shop.git", "git.example", "/acme/shop", false},
	} {
		r, ok := ParseGitRemote(tc.url)
		assert.Assert(t, ok, tc.url)
		assert.Equal(t, r, GitRemote{tc.host, tc.path, tc.bare}, tc.url)
	}
	for _, url := range []string{
		"", "http://github.com/acme/shop", "/srv/git/shop.git", "C:/shop", "file:///srv/shop", "ext::sh -c x", "https://10.0.0.1/acme/shop",
		"https://github.com/", "https://github.com/../shop", "https://github.com/a/../b", "https://github.com/a%2fb", "https://github.com/a//b",
		"https://github.com/a?b", "https://github.com/a b", "git@github.com:../x", "https://github.com/a/b\n", "git@github.com:a/b c",
	} {
		_, ok := ParseGitRemote(url)
		assert.Assert(t, !ok, url)
	}
}

func FuzzParseGitRemote(f *testing.F) {
	f.Add("https://github.com/acme/shop.git")
	f.Add("git@github.com:acme/shop")
	f.Fuzz(func(t *testing.T, url string) {
		r, ok := ParseGitRemote(url)
		if !ok {
			return
		}
		route := r.Route(GitToken{"u", "p"}, true)
		assert.NilError(t, egress.CheckRoutes([]egress.Route{route}))
		for _, s := range r.Settings("http://10.0.0.1:8080") {
			assert.Assert(t, !strings.ContainsAny(s[0]+s[1], " \n\x00\""), "%q", s)
		}
	})
}

func TestGitRoute(t *testing.T) {
	r, ok := ParseGitRemote("https://github.com/acme/shop")
	assert.Assert(t, ok)
	route := r.Route(GitToken{"x-access-token", "ghp_secret"}, false)
	assert.DeepEqual(t, route, egress.Route{
		Prefix: "/git", Target: "https://github.com", GitReadOnly: true,
		Paths:   []string{"/acme/shop/info/refs", "/acme/shop/git-upload-pack", "/acme/shop.git/info/refs", "/acme/shop.git/git-upload-pack"},
		Headers: map[string]egress.Secret{"Authorization": egress.Secret("Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:ghp_secret")))},
	})
	route = r.Route(GitToken{"x-access-token", "ghp_secret"}, true)
	assert.Assert(t, route.GitPush && !route.GitReadOnly)
	assert.Assert(t, is.Contains(route.Paths, "/acme/shop.git/git-receive-pack"))
	settings := r.Settings("http://10.0.0.1:8080")
	assert.Assert(t, is.Contains(settings, [2]string{"url.http://10.0.0.1:8080/git/acme/shop.git.insteadOf", "git@github.com:acme/shop.git"}))
	assert.Assert(t, is.Contains(settings, [2]string{"url.http://10.0.0.1:8080/git/acme/shop.insteadOf", "https://github.com/acme/shop"}))
	r, _ = ParseGitRemote("https://github.com/acme/shop.git")
	for _, s := range r.Settings("http://10.0.0.1:8080") {
		assert.Assert(t, strings.HasSuffix(s[1], ".git"), "it would lead acme/shop-two there, too")
	}
}

// fakeGit is a git that runs a script.
func fakeGit(t *testing.T, script string) string {
	t.Helper()
	return fs.NewFile(t, "git", fs.WithContent("#!/bin/sh\n"+script), fs.WithMode(0o755)).Path()
}

func TestGitToken(t *testing.T) {
	github, gitlab, own := GitRemote{Host: "github.com", Path: "/a/b"}, GitRemote{Host: "gitlab.com", Path: "/a/b"}, GitRemote{Host: "git.example:8443", Path: "/a/b"}
	for _, tc := range []struct {
		name   string
		env    map[string]string
		git    string
		remote GitRemote
		want   GitToken
		err    string
	}{
		{"gh's own variable counts first", map[string]string{"GITHUB_TOKEN": "two", "GH_TOKEN": " one\n"}, "exit 9", github, GitToken{"x-access-token", "one"}, ""},
		{"the other one", map[string]string{"GITHUB_TOKEN": "two", "GH_TOKEN": ""}, "exit 9", github, GitToken{"x-access-token", "two"}, ""},
		{"gitlab's", map[string]string{"GITHUB_TOKEN": "two", "GITLAB_TOKEN": "three"}, "exit 9", gitlab, GitToken{"oauth2", "three"}, ""},
		{"a token is for its host only", map[string]string{"GITHUB_TOKEN": "two", "GITLAB_TOKEN": "three"}, "exit 128", own, GitToken{}, "none in git or the environment"},
		{
			"what git has stored", nil,
			`case "$*" in *"-c core.askPass= -c credential.interactive=false credential fill") ;; *) exit 1 ;; esac
test "$GIT_TERMINAL_PROMPT$GIT_ASKPASS" = 0 || exit 2
test -z "$GIT_DIR" || exit 3
test "$(cat)" = "$(printf 'protocol=https\nhost=git.example:8443\npath=a/b.git\n\n')" || exit 4
printf 'protocol=https\nhost=git.example:8443\nusername=una\npassword=p=w\n'`, own,
			GitToken{"una", "p=w"},
			"",
		},
		{"nothing is stored", nil, "echo protocol=https", own, GitToken{}, "none in git or the environment"},
		{"it has expired", nil, "printf 'username=u\\npassword=p\\npassword_expiry_utc=1000\\n'", own, GitToken{}, "has expired"},
		{"it waits", nil, "sleep 100", own, GitToken{}, "\"git credential fill\" did not answer within"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("GIT_DIR", "/nowhere")
			g := GitTokens{
				LookupEnv: func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok },
				Git:       fakeGit(t, tc.git), Dir: os.TempDir(), limit: 5 * time.Second,
			}
			if tc.name == "it waits" {
				g.limit = 100 * time.Millisecond
			}
			token, err := g.Token(t.Context(), tc.remote)
			assert.Equal(t, token, tc.want)
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
		})
	}
}

// The real git does not prompt.
func TestGitTokenDoesNotPrompt(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	_, err := GitTokens{LookupEnv: func(string) (string, bool) { return "", false }, Dir: home}.Token(t.Context(), GitRemote{Host: "git.example", Path: "/a/b"})
	assert.ErrorIs(t, err, ErrNoGitToken)
}

func FuzzParseGitToken(f *testing.F) {
	f.Add("username=u\npassword=p\n")
	f.Add("username=u:v\npassword=\x1b\npassword_expiry_utc=9\n")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := parseGitToken(text, time.Unix(1000, 0))
		assert.Assert(t, err != nil || token.secret != "" && !strings.ContainsAny(token.user+token.secret, "\r\n\x00"))
	})
}
