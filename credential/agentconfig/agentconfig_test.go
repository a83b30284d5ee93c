package agentconfig

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

// someKey has the format of a key.
const someKey = "sk-ant-" + "0123456789" + "abcdefghij"

func none(string) (string, bool) { return "", false }

// home creates a home directory with these files. The content "-> x" is a symbolic link to x.
func home(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			assert.NilError(t, os.Symlink(target, path))
			continue
		}
		assert.NilError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

// staged returns the files that a sandbox would see.
func staged(t *testing.T, f *Files) map[string]string {
	t.Helper()
	staging := StagingOf(t.TempDir(), "container", "sb")
	assert.NilError(t, MakeShown(staging.Shown()))
	name, err := staging.Put(f)
	assert.NilError(t, err)
	found := map[string]string{}
	root := os.DirFS(filepath.Join(staging.Shown(), name))
	assert.NilError(t, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var content []byte
			content, err = fs.ReadFile(root, name)
			found[name] = string(content)
		}
		return err
	}))
	return found
}

func TestCollect(t *testing.T) {
	for _, tc := range []struct {
		agent       string
		files, want map[string]string
		notes       []string
	}{
		{
			agent: "claude",
			files: map[string]string{
				".claude/settings.json":             `{"model": "opus"}`,
				".claude/CLAUDE.md":                 "Be brief.",
				".claude/.credentials.json":         `{"claudeAiOauth":{"accessToken":"x"}}`,
				".claude/history.jsonl":             "what I asked elsewhere",
				".claude/projects/a/session.jsonl":  "what was said elsewhere",
				".claude/skills/one/SKILL.md":       "A skill.",
				".claude/skills/one/.env":           "KEY=value",
				".claude/skills/two/key.pem":        "a key",
				".claude/commands/linked.md":        "-> ../CLAUDE.md",
				".claude/commands/out.md":           "-> ../../.ssh/id_rsa",
				".claude/commands/away.md":          "-> /etc/passwd",
				".claude/agents":                    "-> ../elsewhere",
				".claude/rules/with-a-key.md":       "use " + someKey,
				".ssh/id_rsa":                       "secret",
				"elsewhere/other.md":                "not of claude",
				".claude/.claude.json":              "{}",
				".claude/output-styles/subfolder/x": "style",
			},
			want: map[string]string{
				".claude/settings.json":             `{"model": "opus"}`,
				".claude/CLAUDE.md":                 "Be brief.",
				".claude/skills/one/SKILL.md":       "A skill.",
				".claude/commands/linked.md":        "Be brief.",
				".claude/output-styles/subfolder/x": "style",
			},
			notes: []string{"agents is not copied", "away.md is not copied", "out.md is not copied", "with-a-key.md is not copied"},
		},
		{
			agent: "crush",
			files: map[string]string{
				".config/crush/crush.json":      `{"providers":{"x":{"api_key":"abc","base_url":"https://x"},"y":{"api_key":"$Y_KEY"}}}`,
				".local/share/crush/crush.json": `{"models":{"large":"m"},"oauth":{"access_token":"abc"}}`,
				".local/share/crush/crush.db":   "sessions",
			},
			want: map[string]string{
				".config/crush/crush.json":      "{\n  \"providers\": {\n    \"x\": {\n      \"base_url\": \"https://x\"\n    },\n    \"y\": {\n      \"api_key\": \"$Y_KEY\"\n    }\n  }\n}\n",
				".local/share/crush/crush.json": "{\n  \"models\": {\n    \"large\": \"m\"\n  },\n  \"oauth\": {}\n}\n",
			},
			notes: []string{"crush.json is copied without api_key", "crush.json is copied without access_token"},
		},
		{agent: "codex", files: map[string]string{".codex/auth.json": "{}", ".codex/config.toml": "model = \"m\"\n"}, want: map[string]string{".codex/config.toml": "model = \"m\"\n"}},
		{agent: "opencode", files: map[string]string{".config/opencode/opencode.jsonc": "{ // mine\n}"}, want: map[string]string{}, notes: []string{"checking for keys"}},
		{agent: "shell", files: map[string]string{".claude/CLAUDE.md": "x"}, want: map[string]string{}},
	} {
		t.Run(tc.agent, func(t *testing.T) {
			found, err := Collect(tc.agent, home(t, tc.files), none)
			assert.NilError(t, err)
			assert.DeepEqual(t, staged(t, found), tc.want)
			said := strings.Join(found.Notes, "\n")
			assert.Equal(t, len(found.Notes), len(tc.notes), said)
			for _, want := range tc.notes {
				assert.Check(t, cmp.Contains(said, want))
			}
		})
	}
}

func TestCollectFromOtherDirectories(t *testing.T) {
	dir := home(t, map[string]string{"mine/CLAUDE.md": "x"})
	lookup := func(name string) (string, bool) { return filepath.Join(dir, "mine"), name == "CLAUDE_CONFIG_DIR" }
	found, err := Collect("claude", dir, lookup)
	assert.NilError(t, err)
	assert.DeepEqual(t, staged(t, found), map[string]string{".claude/CLAUDE.md": "x"})

	found, err = Collect("claude", dir, none)
	assert.NilError(t, err)
	assert.Assert(t, found.Empty())
	assert.DeepEqual(t, found.Missing, []string{filepath.Join(dir, ".claude")})
	found, err = Collect("claude", "", none)
	assert.NilError(t, err)
	assert.Assert(t, found.Empty())

	// A file instead of the directory is unreadable for root, too.
	_, err = Collect("claude", home(t, map[string]string{".claude": "a file"}), none)
	assert.ErrorContains(t, err, "reading your settings of claude: ")
	assert.Assert(t, cmp.Contains(strings.Join(hint.Of(err), ""), "--no-host-config"))
	if os.Getuid() == 0 {
		return // may read everything
	}
	dir = home(t, map[string]string{".claude/CLAUDE.md": "x"})
	assert.NilError(t, os.Chmod(filepath.Join(dir, ".claude", "CLAUDE.md"), 0))
	_, err = Collect("claude", dir, none)
	assert.Assert(t, errors.Is(err, fs.ErrPermission))
}

func TestCollectLimits(t *testing.T) {
	files := map[string]string{".claude/skills/large.md": strings.Repeat("x", maxFile+1)}
	found, err := Collect("claude", home(t, files), none)
	assert.NilError(t, err)
	assert.Assert(t, found.Empty())
	assert.Assert(t, cmp.Contains(found.Notes[0], "larger than 1 MiB"))
	dir := home(t, nil)
	assert.NilError(t, os.MkdirAll(filepath.Join(dir, ".claude", "skills"), 0o755))
	for i := range maxTotal/maxFile + 1 {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, ".claude", "skills", string(rune('a'+i))), make([]byte, maxFile), 0o600))
	}
	_, err = Collect("claude", dir, none)
	assert.ErrorContains(t, err, "holds more than 32 MiB")
}

func TestDigest(t *testing.T) {
	collect := func(content string) string {
		found, err := Collect("claude", home(t, map[string]string{".claude/CLAUDE.md": content}), none)
		assert.NilError(t, err)
		return found.Digest()
	}
	assert.Equal(t, collect("a"), collect("a"))
	assert.Assert(t, collect("a") != collect("b"))
}

func TestClean(t *testing.T) {
	for _, tc := range []struct{ name, agent, file, content, want, what, err string }{
		{"nothing", "claude", "settings.json", `{"max_tokens": 10}`, `{"max_tokens": 10}`, "", ""},
		{"empty", "claude", "settings.json", "", "", "", ""},
		{
			"environment", "claude", "settings.json", `{"env":{"ANTHROPIC_BASE_URL":"https://x","HTTPS_PROXY":"http://p","MY_TOKEN":"t","EDITOR":"vi"},"apiKeyHelper":"~/key"}`,
			"{\n  \"env\": {\n    \"EDITOR\": \"vi\"\n  }\n}\n", "is copied without ANTHROPIC_BASE_URL, HTTPS_PROXY, MY_TOKEN, apiKeyHelper", "",
		},
		{"references", "codex", "config.toml", "[x]\nenv_key = \"K\"\nbearer_token_env_var = \"T\"\n", "[x]\nenv_key = \"K\"\nbearer_token_env_var = \"T\"\n", "", ""},
		{"toml", "codex", "config.toml", "model = 'm'\n[mcp_servers.x.env]\nAPI_TOKEN = \"abc\"\n", "model = 'm'\n\n[mcp_servers]\n[mcp_servers.x]\n[mcp_servers.x.env]\n", "is copied without API_TOKEN", ""},
		{
			"arguments", "copilot", "mcp-config.json", `{"args":["--api-key","abc","--token=def","--verbose","https://u:p@host/","--token","${T}"]}`,
			"{\n  \"args\": [\n    \"--api-key\",\n    \"\",\n    \"--token=\",\n    \"--verbose\",\n    \"\",\n    \"--token\",\n    \"${T}\"\n  ]\n}\n", "is copied without args", "",
		},
		{"objects", "copilot", "config.json", `{"copilot_tokens":{"u":"gho"},"url":"a<b"}`, "{\n  \"url\": \"a<b\"\n}\n", "is copied without copilot_tokens", ""},
		{"comment", "codex", "config.toml", "# " + someKey + "\nmodel = 'm'\n", "model = 'm'\n", "is copied without its comments", ""},
		{"no document", "gemini", "settings.json", `{"a":1} {"b":2}`, "", "", "unexpected data"},
		{"text", "gemini", "GEMINI.md", "just text", "just text", "", ""},
		{"text with a key", "gemini", "commands/x.toml2", "AIzaSyA0123456789012345678901234567890", "", "", "looks like a key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, what, err := clean(tc.agent, tc.file, []byte(tc.content))
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, string(got), tc.want)
			assert.Equal(t, what, tc.what)
		})
	}
}
