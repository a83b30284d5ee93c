package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"
)

func command(name string) string { return "ralph _hook " + name }

const registered = `{
  "hooks": {
    "PreCompact": [
      {
        "matcher": "*",
        "hooks": [
          {
            "type": "command",
            "command": "ralph _hook precompact"
          }
        ]
      }
    ],
    "SessionEnd": [
      {
        "matcher": "*",
        "hooks": [
          {
            "type": "command",
            "command": "ralph _hook session_end"
          }
        ]
      }
    ]
  }
}
`

func contentOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	assert.NilError(t, err)
	return string(b)
}

func TestRegister(t *testing.T) {
	for _, tc := range []struct{ name, before, after string }{
		{"no file", "", registered},
		{"an empty file", " \n", registered},
		{"no hooks", "{}", registered},
		{"null", `{"hooks": null}`, registered},
		{"other commands are replaced", strings.ReplaceAll(registered, "ralph _hook", "bash /opt/ralph/hooks/"), registered},
		{"a list of several is replaced", `{"hooks":{"PreCompact":[1,2],"SessionEnd":null}}`, registered},
		{"registered already, in other words", `{"hooks":{"SessionEnd":[{"matcher":"*","hooks":[{"type":"command","command":"ralph _hook session_end"}]}],` + "\r\n" +
			`"PreCompact":[{"matcher":"*","hooks":[{"type":"command","command":"ralph _hook precompact"}]}]} }`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "deep", "settings.json")
			if tc.before != "" {
				assert.NilError(t, os.Mkdir(filepath.Dir(path), 0o755))
				assert.NilError(t, os.WriteFile(path, []byte(tc.before), 0o600))
			}
			if tc.after == "" {
				tc.after = tc.before
			}
			for range 2 { // twice is once
				assert.NilError(t, RegisterHooks(path, command))
				assert.Equal(t, contentOf(t, path), tc.after)
			}
		})
	}
}

func TestRegisterKeepsOtherSettings(t *testing.T) {
	const before = `{
	"zeta": 1.50e0,
	"model": "x <y> & é",
	"hooks": {"Stop": [{"hooks": []}], "PreCompact": [{"matcher": "old"}], "Aaa": []},
	"alpha": {"b": 12345678901234567890, "a": null}
}`
	path := fs.NewFile(t, "settings", fs.WithContent(before), fs.WithMode(0o640)).Path()
	assert.NilError(t, RegisterHooks(path, func(name string) string { return "<" + name + ">" }))
	assert.Equal(t, contentOf(t, path), `{
	"zeta": 1.50e0,
	"model": "x <y> & é",
	"hooks": {
		"Stop": [
			{
				"hooks": []
			}
		],
		"PreCompact": [
			{
				"matcher": "*",
				"hooks": [
					{
						"type": "command",
						"command": "<precompact>"
					}
				]
			}
		],
		"Aaa": [],
		"SessionEnd": [
			{
				"matcher": "*",
				"hooks": [
					{
						"type": "command",
						"command": "<session_end>"
					}
				]
			}
		]
	},
	"alpha": {
		"b": 12345678901234567890,
		"a": null
	}
}
`)
	info, err := os.Stat(path)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o640))
}

func TestRegisterFollowsLinks(t *testing.T) {
	dir := fs.NewDir(t, "home",
		fs.WithDir("dotfiles", fs.WithDir("claude", fs.WithFile("real.json", `{"a":1}`)), fs.WithSymlink("second.json", "claude/real.json")),
		fs.WithSymlink("claude", "dotfiles/claude"),
		fs.WithSymlink("chain.json", "dotfiles/second.json"),
		fs.WithSymlink("dangling.json", "missing/new.json"),
		fs.WithSymlink("circle.json", "circle.json"),
	)
	for _, tc := range []struct{ link, file string }{
		{"chain.json", "dotfiles/claude/real.json"},
		{"claude/real.json", "dotfiles/claude/real.json"},
	} {
		t.Run(tc.link, func(t *testing.T) {
			assert.NilError(t, RegisterHooks(dir.Join(tc.link), command))
			assert.Assert(t, cmp.Contains(contentOf(t, dir.Join(tc.file)), "_hook precompact"))
		})
	}
	assert.Assert(t, cmp.Contains(contentOf(t, dir.Join("dotfiles/claude/real.json")), `"a": 1`))
	info, err := os.Lstat(dir.Join("chain.json"))
	assert.NilError(t, err)
	assert.Assert(t, info.Mode()&os.ModeSymlink != 0, "the link was replaced")
	assert.ErrorContains(t, RegisterHooks(dir.Join("circle.json"), command), "too many levels of symbolic links")
	assert.ErrorContains(t, RegisterHooks(dir.Join("dangling.json"), command), "symbolic link")
}

func TestRegisterRejectsInvalidSettings(t *testing.T) {
	for content, want := range map[string]string{
		"{broken":                    "settings.json is not a JSON object",
		"[1]":                        "is not a JSON object",
		"null":                       "is not a JSON object",
		`{"a":1} {"b":2}`:            "is not a JSON object",
		"// comment\n{}":             "is not a JSON object",
		`{"hooks":[1]}`:              `settings.json has "hooks" that are not a JSON object`,
		`{"hooks":"x"}`:              `"hooks" that are not a JSON object`,
		`{"hooks":{},"hooks":false}`: `"hooks" that are not a JSON object`,
	} {
		t.Run(content, func(t *testing.T) {
			dir := fs.NewDir(t, "claude", fs.WithFile("settings.json", content))
			assert.ErrorContains(t, RegisterHooks(dir.Join("settings.json"), command), want)
			assert.Assert(t, fs.Equal(dir.Path(), fs.Expected(t, fs.WithMode(0o700), fs.WithFile("settings.json", content))))
		})
	}
	dir := fs.NewDir(t, "claude", fs.WithDir("settings.json"))
	assert.ErrorContains(t, RegisterHooks(dir.Join("settings.json"), command), "is a directory")
}

func TestQuote(t *testing.T) {
	for _, tc := range []struct{ word, want string }{
		{"/opt/ralph/1f2e/ralph.sh", "/opt/ralph/1f2e/ralph.sh"},
		{"", "''"},
		{"/my apps/ralph", "'/my apps/ralph'"},
		{"it's", `'it'\''s'`},
		{"a\nb $HOME `id` ~", "'a\nb $HOME `id` ~'"},
		{"~", "'~'"},
	} {
		t.Run(tc.word, func(t *testing.T) {
			assert.Equal(t, ShellQuote(tc.word), tc.want)
			out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s' "+ShellQuote(tc.word)).Output()
			assert.NilError(t, err)
			assert.Equal(t, string(out), tc.word)
		})
	}
}

// Settings are either rejected or keep all members.
func FuzzEnter(f *testing.F) {
	for _, seed := range []string{
		"", "{}", registered, `{"a":{"hooks":1},"hooks":{"Stop":[1],"PreCompact":[]},"n":1.50,"s":"<\u2028\"\\"}`,
		"{\n    \"a\": []\n}", `{"hooks":null,"hooks":{"x":1}}`, "{\"\xff\":1}", `{"hooks":[]}`, "[]", "{", "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, before []byte) {
		after, err := addHooks(bytes.Clone(before), command)
		if err != nil {
			return
		}
		again, err := addHooks(bytes.Clone(after), command)
		assert.NilError(t, err)
		assert.Equal(t, string(again), string(after), "twice is once")

		var was, is map[string]any
		if len(bytes.TrimSpace(before)) > 0 {
			assert.NilError(t, json.Unmarshal(before, &was))
		}
		assert.NilError(t, json.Unmarshal(after, &is))
		hooks, ok := is["hooks"].(map[string]any)
		assert.Assert(t, ok)
		old, _ := was["hooks"].(map[string]any)
		for name, event := range hookEvents() {
			list, err := json.Marshal(hooks[event])
			assert.NilError(t, err)
			assert.Equal(t, string(list), `[{"hooks":[{"command":"ralph _hook `+name+`","type":"command"}],"matcher":"*"}]`)
			delete(hooks, event)
			delete(old, event)
		}
		if old == nil {
			old = map[string]any{}
		}
		assert.DeepEqual(t, hooks, old)
		delete(was, "hooks")
		delete(is, "hooks")
		if was == nil {
			was = map[string]any{}
		}
		assert.DeepEqual(t, is, was)
	})
}
