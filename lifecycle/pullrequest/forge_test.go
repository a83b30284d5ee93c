package pullrequest

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestForge(t *testing.T) {
	p := proposal{Branch: "fix/a", Base: "main", Title: "A & B", Body: "| x |"}
	for _, test := range []struct{ origin, program, page string }{
		{"git@github.com:acme/shop.git", "gh", "https://github.com/acme/shop/compare/main...fix%2Fa?expand=1&body=%7C+x+%7C&title=A+%26+B"},
		{"https://user:secret@github.com/acme/shop", "gh", "https://github.com/acme/shop/compare/main...fix%2Fa?expand=1&body=%7C+x+%7C&title=A+%26+B"},
		{"https://github.acme.example/acme/shop", "gh", "https://github.acme.example/acme/shop/compare/main...fix%2Fa?expand=1&body=%7C+x+%7C&title=A+%26+B"},
		{"git@gitlab.com:acme/team/shop.git", "glab", "https://gitlab.com/acme/team/shop/-/merge_requests/new?merge_request%5Bsource_branch%5D=fix%2Fa&merge_request%5Btarget_branch%5D=main" +
			"&merge_request%5Bdescription%5D=%7C+x+%7C&merge_request%5Btitle%5D=A+%26+B"},
		{"https://codeberg.org/acme/shop.git", "", "https://codeberg.org/acme/shop"},
		{"https://notgithub.example/acme/shop.git", "", "https://notgithub.example/acme/shop"},
	} {
		f, ok := forgeOf(test.origin)
		assert.Assert(t, ok, test.origin)
		assert.Check(t, is.Equal(f.program, test.program), test.origin)
		assert.Check(t, is.Equal(f.page(p), test.page), test.origin)
	}
	for _, origin := range []string{"", "/srv/git/shop.git", "file:///srv/shop.git", "ext::sh -c x"} {
		_, ok := forgeOf(origin)
		assert.Check(t, !ok, origin)
	}
	f, _ := forgeOf("git@github.com:acme/shop.git")
	p.Body = strings.Repeat("x", maxURL)
	assert.Equal(t, f.page(p), "https://github.com/acme/shop/compare/main...fix%2Fa?expand=1")
}
