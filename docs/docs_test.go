// Package docs has the documentation, and tests that it stays true.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// TestDocumentedTestsExist checks that every test that a page names is in the
// code: a claim must not outlive the test that shows it.
func TestDocumentedTestsExist(t *testing.T) {
	code := tests(t)
	named := 0
	for _, page := range pages(t) {
		for _, m := range regexp.MustCompile("`(Test[A-Za-z0-9_]+)`").FindAllStringSubmatch(read(t, page), -1) {
			named++
			assert.Check(t, strings.Contains(code, "\nfunc "+m[1]+"(t *testing.T)"), "%s names %s, which does not exist", page, m[1])
		}
	}
	assert.Assert(t, named > 40, "only %d tests are named", named)
}

// TestSecurityClaimsNameTheirTests checks that no claim of what holds is without a
// test.
func TestSecurityClaimsNameTheirTests(t *testing.T) {
	_, holds, found := strings.Cut(read(t, "internals/security-tests.md"), "\n## Guarantees\n")
	assert.Assert(t, found)
	holds, _, found = strings.Cut(holds, "\n## ")
	assert.Assert(t, found)
	claims := strings.Split(holds, "\n- **")[1:]
	assert.Assert(t, len(claims) > 15, "only %d claims", len(claims))
	for _, claim := range claims {
		assert.Check(t, strings.Contains(claim, "(`Test"), "no test shows this: %s", claim)
	}
}

// TestReferenceHasExamples checks that each command's page has examples below what is generated.
func TestReferenceHasExamples(t *testing.T) {
	pages, err := filepath.Glob("reference/ralph*.md")
	assert.NilError(t, err)
	assert.Assert(t, len(pages) > 30, "only %d pages", len(pages))
	for _, page := range pages {
		_, written, _ := strings.Cut(read(t, page), "<!---MARKER_GEN_END-->")
		assert.Check(t, strings.HasPrefix(strings.TrimSpace(written), "## Examples\n") && strings.Contains(written, "```console\n$ "), "%s has no examples", page)
	}
}

// tests returns the test code of the module.
func tests(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	assert.NilError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..":
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			_, _ = all.WriteString(read(t, path))
		}
		return nil
	}))
	return all.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	assert.NilError(t, err)
	return string(content)
}
