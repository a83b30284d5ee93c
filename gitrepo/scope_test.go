package gitrepo

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestSandboxName(t *testing.T) {
	for _, tc := range []struct{ name, repo, branch, want string }{
		{"example with slashes", "minocys/ralph-docker", "feature/auth/v2", "ralph-minocys-ralph-docker-feature-auth-v2"},
		{"example", "acme/web-app", "main", "ralph-acme-web-app-main"},
		{"letter case is kept", "Acme/Web", "Main", "ralph-Acme-Web-Main"},
		{"runs collapse", "acme//web__app", "a...b---c", "ralph-acme-web-app-a-b-c"},
		{"ends are stripped", "/srv/git/shop", "_x_", "ralph-srv-git-shop-x"},
		{"underscore and dot are no letters", "a_b/c.d", "v1.2_3", "ralph-a-b-c-d-v1-2-3"},
		{"other alphabets", "acme/größe", "日本-1", "ralph-acme-gr-e-1"},
		{"nothing left of the branch", "acme/web", "日本", "ralph-acme-web-cf2abf0c"},
		{"nothing left of another branch", "acme/web", "中国", "ralph-acme-web-" + component("中国")},
		{"nothing left of the repository", "..", "main", "ralph-" + component("..") + "-main"},
		{"63 characters stay", "a/b", strings.Repeat("x", 53), "ralph-a-b-" + strings.Repeat("x", 53)},
		{"64 characters are cut", "a/b", strings.Repeat("x", 54), "ralph-a-b-" + strings.Repeat("x", 53)},
		{"no dash after the cut", "a/b", strings.Repeat("x", 52) + "/y", "ralph-a-b-" + strings.Repeat("x", 52)},
		{"a long repository", strings.Repeat("r", 80), "main", "ralph-" + strings.Repeat("r", 57)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assertName(t, Scope{Repo: tc.repo, Branch: tc.branch})
			name, err := Scope{Repo: tc.repo, Branch: tc.branch}.SandboxName()
			assert.NilError(t, err)
			assert.Equal(t, name, tc.want)
		})
	}
	assert.Assert(t, component("日本") != component("中国"))
}

func TestSandboxNameNeedsBothParts(t *testing.T) {
	_, err := Scope{Branch: "main"}.SandboxName()
	assert.Error(t, err, "no repository in the scope")
	_, err = Scope{Repo: "acme/web"}.SandboxName()
	assert.Error(t, err, "no branch in the scope")
}
