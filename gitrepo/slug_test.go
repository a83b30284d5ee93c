package gitrepo

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestSlug(t *testing.T) {
	for _, tc := range []struct{ name, url, slug string }{
		{"https", "https://github.com/acme/shop.git", "acme/shop"},
		{"https without .git", "https://github.com/acme/shop", "acme/shop"},
		{"https with trailing slash", "https://github.com/acme/shop/", "acme/shop"},
		{"https with .git and slash", "https://github.com/acme/shop.git/", "acme/shop"},
		{"https with many slashes", "https://github.com//acme/shop.git///", "acme/shop"},
		{"https upper case", "HTTPS://GitHub.com/Acme/Shop.git", "Acme/Shop"},
		{"https with port", "https://git.example.com:8443/acme/shop.git", "acme/shop"},
		{"https with user", "https://me@github.com/acme/shop.git", "acme/shop"},
		{"https with password", "https://me:s3cret@github.com/acme/shop.git", "acme/shop"},
		{"https with token", "https://x-access-token:ghp_abc@github.com/acme/shop", "acme/shop"},
		{"https with at sign in the user", "https://me@corp.com:pw@h/acme/shop.git", "acme/shop"},
		{"https with query", "https://h/acme/shop.git?private_token=s3cret", "acme/shop"},
		{"https with fragment", "https://h/acme/shop.git#s3cret", "acme/shop"},
		{"https IPv6", "https://[2001:db8::1]/acme/shop.git", "acme/shop"},
		{"https IPv6 and port", "https://u:p@[2001:db8::1]:8443/acme/shop.git", "acme/shop"},
		{"http", "http://h/acme/shop", "acme/shop"},
		{"GitLab subgroups", "https://gitlab.com/group/sub/deeper/shop.git", "group/sub/deeper/shop"},
		{"Azure", "https://org@dev.azure.com/org/project/_git/shop", "org/project/_git/shop"},
		{"one component", "https://h/shop.git", "shop"},
		{"percent-encoded", "https://h/acme/my%20shop.git", "acme/my%20shop"},
		{"only one .git is taken", "https://h/acme/shop.git.git", "acme/shop.git"},
		{"scp", "git@github.com:acme/shop.git", "acme/shop"},
		{"scp without .git", "git@github.com:acme/shop", "acme/shop"},
		{"scp without user", "github.com:acme/shop.git", "acme/shop"},
		{"scp with trailing slash", "git@github.com:acme/shop.git/", "acme/shop"},
		{"scp absolute", "git@h:/srv/git/shop.git", "srv/git/shop"},
		{"scp home", "git@h:~me/shop.git", "~me/shop"},
		{"scp subgroups", "git@gitlab.com:group/sub/shop.git", "group/sub/shop"},
		{"scp IPv6", "git@[::1]:acme/shop.git", "acme/shop"},
		{"scp IPv6 without user", "[2001:db8::1]:acme/shop.git", "acme/shop"},
		{"scp host and port in brackets", "git@[h:2222]:acme/shop.git", "acme/shop"},
		{"scp colon in the path", "git@h:acme/a:b.git", "acme/a:b"},
		{"ssh", "ssh://git@github.com/acme/shop.git", "acme/shop"},
		{"ssh with port", "ssh://git@h:2222/acme/sub/shop.git", "acme/sub/shop"},
		{"ssh with empty port", "ssh://git@h:/acme/shop.git", "acme/shop"},
		{"ssh without user", "ssh://h/acme/shop", "acme/shop"},
		{"ssh home", "ssh://h/~me/shop.git", "~me/shop"},
		{"ssh IPv6", "ssh://git@[::1]:22/acme/shop.git", "acme/shop"},
		{"git+ssh", "git+ssh://git@h/acme/shop.git", "acme/shop"},
		{"git", "git://h/acme/shop.git", "acme/shop"},
		{"CodeCommit", "codecommit://profile@shop", "shop"},
		{"CodeCommit with region", "codecommit::eu-central-1://profile@shop", "shop"},
		{"helper", "gcrypt::git@h:acme/shop.git", "acme/shop"},
		{"helper over https", "persistent-https::https://u:p@h/acme/shop", "acme/shop"},
		{"local path", "/srv/git/shop.git", "/srv/git/shop"},
		{"local path to a work tree", "/srv/shop/.git", "/srv/shop"},
		{"local path with colon", "/srv/a:b/shop.git", "/srv/a:b/shop"},
		{"local path with spaces", "/srv/my repos/shop.git/", "/srv/my repos/shop"},
		{"relative path", "../shop.git", "../shop"},
		{"relative path with colon", "./a:b", "./a:b"},
		{"relative name", "shop", "shop"},
		{"home", "~/git/shop.git", "~/git/shop"},
		{"dots", "..", ".."},
		{"file", "file:///srv/git/shop.git", "/srv/git/shop"},
		{"file with host", "file://localhost/srv/git/shop.git", "localhost/srv/git/shop"},
		{"file with drive", "file:///C:/git/shop.git", "C:/git/shop"},
		{"drive", `C:\git\shop.git`, "C:/git/shop"},
		{"drive with slashes", "c:/git/shop.git", "c:/git/shop"},
		{"share", `\\server\git\shop.git`, "//server/git/shop"},
		{"blanks around", "  https://h/acme/shop.git \n", "acme/shop"},
		{"unicode", "https://h/acme/größe.git", "acme/größe"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			slug, err := Slug(tc.url)
			assert.NilError(t, err)
			assert.Equal(t, slug, tc.slug)
		})
	}
}

func TestSlugRejects(t *testing.T) {
	for _, tc := range []struct{ name, url, message string }{
		{"empty", "", "empty URL"},
		{"blank", " \t", "empty URL"},
		{"host alone", "https://github.com", "no path"},
		{"host and slash", "https://s3cret@github.com/", "no path"},
		{"nothing but .git", "https://h/.git", "no path"},
		{"root folder", "/", "no path"},
		{"scp without path", "git@github.com:", "no path"},
		{"line break", "https://h/acme/sh\nop", "control characters"},
		{"escape", "https://h/acme/\x1b[31m", "control characters"},
		{"invalid UTF-8", "https://h/acme/\xff", "invalid UTF-8"},
		{"command", "ext::sh -c s3cret% foo", "a command, not a URL"},
		{"slash in the password", "https://me:s3/cret@h/acme/shop", "invalid port"},
		{"password in an scp-like URL", "me:s3cret@h:acme/shop", "password"},
		{"password in a path", "//me:s3cret@h/acme/shop", "password"},
		{"slash missing", "https:/s3cret@h/acme/shop", "missing slash"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			slug, err := Slug(tc.url)
			assert.ErrorContains(t, err, tc.message)
			assert.Equal(t, slug, "")
			assert.Assert(t, !strings.Contains(err.Error(), "s3"), "the error repeats a secret: %v", err)
		})
	}
}

func FuzzRemoteURL(f *testing.F) {
	for _, url := range []string{
		"https://u:p@github.com:443/acme/shop.git/", "git@github.com:acme/shop.git", "ssh://[::1]:22/a/b",
		"file:///C:/x", `\\srv\share`, "../x", "~", "a::b::c:d", "codecommit::r://p@n", "日本:日本/日本", ".git", ":", "[", "::",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		slug, err := Slug(url)
		again, errAgain := Slug(url)
		assert.Equal(t, slug, again)
		assert.Equal(t, err == nil, errAgain == nil)
		if err != nil {
			assert.Equal(t, slug, "")
			return
		}
		assert.Assert(t, slug != "")
		assert.Assert(t, !strings.HasSuffix(slug, "/"))
		assertName(t, Scope{Repo: slug, Branch: "main"})
	})
}

// FuzzRemoteURLCredentials is about the one thing a slug must never hold.
func FuzzRemoteURLCredentials(f *testing.F) {
	f.Add("https", "me", "s3cret", "github.com", "acme/shop.git")
	f.Add("ssh", "a@b", "p:w", "[::1]:22", "x")
	f.Fuzz(func(t *testing.T, scheme, user, password, host, path string) {
		if strings.ContainsAny(user+password+host, "/?#@") || len(password) < 4 || scheme == "file" {
			t.Skip()
		}
		if !schemeURL().MatchString(scheme+"://") || strings.Contains(host+path+scheme, password) {
			t.Skip()
		}
		url := scheme + "://" + user + ":" + password + "@" + host + "/" + path
		slug, err := Slug(url)
		if err != nil {
			assert.Assert(t, !strings.Contains(err.Error(), url))
			return
		}
		assert.Assert(t, !strings.Contains(slug, password), "%q gives %q", url, slug)
	})
}

func FuzzBranch(f *testing.F) {
	for _, branch := range []string{"main", "feature/auth/v2", "日本", "-", "--x--", strings.Repeat("a/", 40), "\x00", ""} {
		f.Add("acme/shop", branch)
	}
	f.Add(strings.Repeat("-", 100), strings.Repeat("é", 100))
	f.Fuzz(func(t *testing.T, repo, branch string) {
		assertName(t, Scope{Repo: repo, Branch: branch})
	})
}

// assertName checks that a scope has either an error or a name that all
// drivers take, and always the same.
func assertName(t *testing.T, s Scope) {
	t.Helper()
	name, err := s.SandboxName()
	if s.Repo == "" || s.Branch == "" {
		assert.ErrorContains(t, err, "in the scope")
		assert.Equal(t, name, "")
		return
	}
	assert.NilError(t, err)
	again, err := s.SandboxName()
	assert.NilError(t, err)
	assert.Equal(t, name, again)
	assert.Assert(t, len(name) <= 63, name)
	assert.Assert(t, is.Regexp(`^ralph-[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$`, name))
	for driver, rule := range driverRules {
		assert.Assert(t, is.Regexp(rule, name), driver)
	}
}

// driverRules are the drivers' own rules for names.
var driverRules = map[string]string{
	"container":      `^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`,
	"sbx":            `^[A-Za-z0-9][A-Za-z0-9.-]{1,62}$`,
	"docker-sandbox": `^[A-Za-z0-9._+-]+$`,
}
