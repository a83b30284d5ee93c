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

// TestLinks checks that each relative link leads to a file, and to a heading in
// it.
func TestLinks(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(withoutCode(read(t, page)), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checked++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(page), path)
			if path == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
				continue
			}
			assert.Check(t, anchor == "" || anchors(read(t, target))[anchor], "%s links to %s, which has no such heading", page, m[1])
		}
	}
	assert.Assert(t, checked > 100, "only %d links", checked)
}

// TestPagesAreLinked checks that the README, or a page that it leads to, links
// to every page.
func TestPagesAreLinked(t *testing.T) {
	linked := map[string]bool{}
	var follow func(page string)
	follow = func(page string) {
		if linked[page] || filepath.Ext(page) != ".md" {
			return
		}
		linked[page] = true
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)`).FindAllStringSubmatch(read(t, page), -1) {
			follow(strings.TrimPrefix(filepath.Join(filepath.Dir(page), m[1]), "../docs/"))
		}
	}
	follow("../README.md")
	for _, page := range pages(t) {
		assert.Check(t, linked[page] || page == "../CHANGELOG.md", "nothing links to %s", page)
	}
}

// pages returns all pages, the generated ones too.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../SECURITY.md", "../CODE_OF_CONDUCT.md"}
	assert.NilError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return err
	}))
	return all
}

// anchors returns the anchors that GitHub gives to a page's headings.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(withoutCode(page), -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return found
}

// withoutCode removes fenced blocks.
func withoutCode(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(page, "")
}
