package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
)

//go:embed page
var page embed.FS

// modules are the page's scripts. Each imports earlier ones only.
func modules() []string {
	return []string{"dom.js", "model.js", "chart.js", "diff.js", "views.js", "source.js", "search.js", "main.js"}
}

func asset(name string) string {
	content, err := page.ReadFile(path.Join("page", name))
	if err != nil {
		panic(err) // it is embedded
	}
	return string(content)
}

// moduleSyntax matches imports, and the keyword of exports.
var moduleSyntax = regexp.MustCompile(`(?m)^import .*\n|^export `)

// standalone returns the page as one file with its data. A policy allows its own script and style
// by their hashes, and nothing else.
func standalone(data any) ([]byte, error) {
	content, err := json.Marshal(data) // it escapes <, > and &
	if err != nil {
		return nil, err
	}
	var script strings.Builder
	for _, name := range modules() {
		script.WriteString(moduleSyntax.ReplaceAllString(asset(name), ""))
	}
	style := asset("style.css")
	policy := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; base-uri 'none'; form-action 'none'", hash(script.String()), hash(style))
	var out bytes.Buffer
	rest := asset("index.html")
	for _, part := range []struct{ at, with string }{
		{"<meta charset=\"utf-8\">", "<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"" + policy + "\">"},
		{"<link rel=\"stylesheet\" href=\"style.css\">", "<style>" + style + "</style>"},
		{"<script type=\"module\" src=\"main.js\"></script>", "<script type=\"application/json\" id=\"data\">" + string(content) + "</script>\n<script type=\"module\">" + script.String() + "</script>"},
	} {
		before, after, found := strings.Cut(rest, part.at)
		if !found {
			return nil, fmt.Errorf("the page lacks %s", part.at)
		}
		out.WriteString(before + part.with)
		rest = after
	}
	out.WriteString(rest)
	return out.Bytes(), nil
}

// hash returns the source expression of a content security policy for an inline element.
func hash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
