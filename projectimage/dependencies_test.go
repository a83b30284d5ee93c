package projectimage

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"
)

func names(packages []Package) []string {
	var all []string
	for _, p := range packages {
		all = append(all, p.Name)
	}
	return all
}

func TestParseDependencies(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"as in the documentation", "# .agent-loop/dependencies\n# One package per line.\nopenjdk-21-jdk\npython3-venv\nnodejs\n", []string{"openjdk-21-jdk", "python3-venv", "nodejs"}},
		{"comments after a name", "jq # for JSON\ncurl#and this\n#gone\n  # and this\n", []string{"jq", "curl"}},
		{"blanks", "\n\n  jq  \n\t\n\tcurl\t# x\n \n", []string{"jq", "curl"}},
		{"CRLF", "jq\r\n\r\n# x\r\ncurl\r\n", []string{"jq", "curl"}},
		{"BOM", "\ufeffjq\n", []string{"jq"}},
		{"no last newline", "jq\ncurl", []string{"jq", "curl"}},
		{"no last newline, CR", "jq\r\ncurl\r", []string{"jq", "curl"}},
		{"twice", "jq\ncurl\njq\n", []string{"jq", "curl"}},
		{"special names", "g++\nlibstdc++6\nlibc6:arm64\npython3.11\n0ad\n7zip\n", []string{"g++", "libstdc++6", "libc6:arm64", "python3.11", "0ad", "7zip"}},
		{"versions", "a1=1\njq=1.6-2.1+deb12u1~rc1\nvim=2:9.0.1378-2\nlibc6:amd64=2.36-9+deb12u10\nx2=1.0A~\n", []string{"a1=1", "jq=1.6-2.1+deb12u1~rc1", "vim=2:9.0.1378-2", "libc6:amd64=2.36-9+deb12u10", "x2=1.0A~"}},
		{"architectures", "gcc:any\nzlib1g:hurd-i386\n", []string{"gcc:any", "zlib1g:hurd-i386"}},
		{"comment in any language", "jq # für 日本 \u202e\n", []string{"jq"}},
		{"nothing", "", nil},
		{"comments only", "# nothing\n\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseDependencies("dependencies", []byte(tc.text))
			assert.NilError(t, err)
			assert.DeepEqual(t, names(got), tc.want)
		})
	}
}

func TestParseDependenciesKeepsLines(t *testing.T) {
	got, err := parseDependencies("dependencies", []byte("# x\r\n\r\njq\r\ncurl\r\njq\r\n"))
	assert.NilError(t, err)
	assert.DeepEqual(t, got, []Package{{"jq", 3}, {"curl", 4}})
}

// The golden files show what a user sees; `go test ./projectimage -update`
// writes them anew.
func TestDependencyMistakes(t *testing.T) {
	for _, tc := range []struct{ name, text string }{
		{"several", "jq\nBad\n  curl; rm -rf / # no\n$(id)\n"},
		{"two-on-a-line", "jq curl wget\n"},
		{"option", "-oAPT::Update::Pre-Invoke::=id\n--yes\n"},
		{"shell", "a`id`\nb|c\nd&\ne>f\n'g'\nh\\\ni*\nj/bookworm\nk^\n"},
		{"removal", "apt-\njq=1.0-\n"},
		{"versions", "jq=\njq=~root\njq=1:~root\njq=1=2\njq=1_2\njq=a1\n"},
		{"architectures", "jq:\njq:AMD64\njq:a:b\njq:amd64-\n"},
		{"short", "j\n"},
		{"nul", "jq\x00\n"},
		{"control", "jq\x1b[31m # red\n# \x07 in a comment\nab\rcd\n\u0085x\n"},
		{"wide", "日本語パッケージ\n\tgröße\n"},
		{"bidi", "jq\u202egpj\n"},
		{"invalid-utf8", "jq\xff\n"},
		{"utf-16", "\xff\xfej\x00q\x00"},
		{"long-line", strings.Repeat("x", 300) + "!" + strings.Repeat("y", 300) + "\n"},
		{"many", strings.Repeat("?\n", 1000)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseDependencies(".agent-loop/dependencies", []byte(tc.text))
			assert.Assert(t, err != nil)
			var mistake *FileError
			assert.Assert(t, errors.As(err, &mistake), "%v", err)
			golden.Assert(t, err.Error()+"\n", "dependencies-"+tc.name+".golden")
		})
	}
}

func TestTooManyDependencies(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "lib-some-long-package-name-%05d\n", i)
	}
	_, err := parseDependencies("dependencies", []byte(text.String()))
	assert.Error(t, err, "dependencies: more than 60000 bytes of package names: install them in Dockerfile.sandbox")
}

func TestGenerateDockerfile(t *testing.T) {
	packages, err := parseDependencies("dependencies", []byte("pkg1\npkg2\npkg3\n"))
	assert.NilError(t, err)
	golden.Assert(t, string(generateDockerfile(packages)), "generated.Dockerfile.golden")
}

// FuzzParseDependencies makes sure that nothing in a file of a stranger can be
// more than a package's name to apt-get or to a shell.
func FuzzParseDependencies(f *testing.F) {
	for _, seed := range []string{
		"jq\ncurl # x\n", "\ufeffg++\r\n", "libc6:amd64=1:2.36-9~x+y\n", "$(id)", "a;b", "-y", "jq=~", "a\x00b", "x-\n", "\xff\xfe", "a b",
		"jq#", "a'b", `a\`, "a*", "aa=0-a", "aa=1:0~",
	} {
		f.Add([]byte(seed))
	}
	shell, _ := exec.LookPath("bash")
	f.Fuzz(func(t *testing.T, text []byte) {
		packages, err := parseDependencies("dependencies", text)
		if err != nil {
			assert.Assert(t, !strings.ContainsFunc(err.Error(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' }), "%q", err)
			return
		}
		for _, p := range packages {
			assert.Assert(t, cmp.Regexp(`^[a-z0-9][A-Za-z0-9+.:=~-]+$`, p.Name))
			assert.Assert(t, !strings.HasSuffix(p.Name, "-") && !strings.Contains(p.Name, "=~") && !strings.Contains(p.Name, ":~"), p.Name)
		}
		if shell == "" || len(packages) == 0 || len(packages) > 100 {
			return
		}
		all := strings.Join(names(packages), " ")
		out, err := exec.CommandContext(t.Context(), shell, "-c", "echo "+all).Output()
		assert.NilError(t, err)
		assert.Equal(t, string(out), all+"\n")
	})
}
