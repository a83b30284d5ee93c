package credential

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const secretsTable = `Starting sandboxd daemon...
Daemon started (PID: 4711, socket: /run/sandboxd.sock)
SCOPE          TYPE       NAME          SECRET
(global)       service    anthropic     (oauth configured)
global         service    openai        sk-pro***
ralph-app      service    github        (stored)
ralph-other    service    google        (stored)
(host-only)    registry   ghcr.io       u/**
global         registry   openrouter    u/**

SCOPE    TARGETS                 ENV      PLACEHOLDER        SECRET
global   a.example, b.example    groq     sbx-cs-osQVWhw2    *

Note: 1 additional environment variable found. Run ` + "`sbx setup`" + ` to review and import.
`

const secretsJSON = `{
  "secrets": [
    {"scope": "host-only", "type": "registry", "name": "ghcr.io", "secret": "**", "username": "u"},
    {"scope": "global", "type": "registry", "name": "openrouter", "secret": "**"},
    {"scope": "global", "type": "service", "name": "anthropic", "secret": "(stored)"},
    {"scope": "ralph-app", "type": "service", "name": "github", "secret": "(stored)"},
    {"scope": "ralph-other", "type": "service", "name": "google", "secret": "testte**"},
    {"scope": "global", "type": "service", "name": "openai", "secret": {"kind": "ref"}}
  ],
  "custom_secrets": [{"scope": "global", "targets": ["a.example"], "env": "groq", "placeholder": "sbx-cs-osQVWhw2", "secret": "*"}],
  "shadowed_services": [],
  "env_only_count": 1
}`

func TestStored(t *testing.T) {
	for _, tc := range []struct{ name, output, sandbox, want string }{
		{"table", secretsTable, "ralph-app", "anthropic github openai"},
		{"table, any sandbox", secretsTable, "", "anthropic openai"},
		{"table with line ends of Windows", strings.ReplaceAll(secretsTable, "\n", "\r\n"), "ralph-other", "anthropic google openai"},
		{"table in colour", "\x1b[1mSCOPE  TYPE  NAME  SECRET\x1b[0m\n\x1b[2mglobal\x1b[0m  service  xai  (stored)\n", "", "xai"},
		{"table with one blank between columns", "SCOPE TYPE NAME SECRET\nglobal service xai (oauth configured)\n", "", "xai"},
		{"table with tabs", "SCOPE\tTYPE\tNAME\tSECRET\nglobal\tservice\txai\t*\n", "", "xai"},
		{"columns in another order", "SCOPE  NAME  TYPE\nglobal  xai  service\nglobal  ghcr.io  registry\n", "", "xai"},
		{"a notice right behind the table", "SCOPE  TYPE  NAME  SECRET\nglobal  service  xai  *\n╭────╮\n│ Update available: v0.54 │\n╰────╯\n", "", "xai"},
		{"only custom secrets", "SCOPE  TARGETS  ENV  PLACEHOLDER  SECRET\nglobal  a.example  anthropic  sbx-cs-1  *\n", "", ""},
		{"only a header", "SCOPE  TYPE  NAME  SECRET\n", "", ""},
		{"nothing stored", "No secrets found.\n", "", ""},
		{"nothing stored for this one", "Logs: /x\nNo secrets found for scope \"ralph-app\".\n", "ralph-app", ""},
		{"JSON", secretsJSON, "ralph-app", "anthropic github openai"},
		{"JSON, any sandbox", secretsJSON, "", "anthropic openai"},
		{"JSON between lines", "Starting sandboxd daemon...\n[daemon] ready\n" + secretsJSON + "\n╭────╮\n│ Update available │\n╰────╯\n", "ralph-app", "anthropic github openai"},
		{"JSON, nothing stored", `{"secrets":[],"custom_secrets":[],"shadowed_services":[],"env_only_count":0}`, "", ""},
		{"JSON null", `{"secrets":null}`, "", ""},
		{"JSON, a bare list", "\ufeff" + `[{"service":"anthropic"},{"name":"openai","type":"service","scope":"global"}]`, "", "anthropic openai"},
		{"JSON, an empty list", "[]\n", "", ""},
		{"JSON with strange entries", `[7, null, {"name": 7}, {"name": ""}, {"name": "a b"}, {"name": "xai"}]`, "", "xai"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Stored([]byte(tc.output), tc.sandbox)
			assert.NilError(t, err)
			assert.Equal(t, strings.Join(slices.Sorted(maps.Keys(got)), " "), tc.want)
		})
	}
}

func TestStoredWithoutAList(t *testing.T) {
	for _, output := range []string{"", "\n", "Error: not logged in\n", `{"error":"x"}`, `{"secrets":7}`, `{"secrets":[`, `{"custom_secrets":[]}`, "{"} {
		_, err := Stored([]byte(output), "")
		assert.ErrorContains(t, err, `"sbx secret ls" printed no list of secrets`, output)
	}
}

func FuzzStoredTable(f *testing.F) {
	f.Add(secretsTable, "ralph-app")
	f.Add("SCOPE TYPE NAME SECRET\nglobal service xai\nx", "")
	f.Add("SCOPE\n\nSCOPE NAME\n", "x")
	f.Add("No secrets", "")
	f.Fuzz(func(t *testing.T, output, sandbox string) {
		secrets, ok := secretsOfTable(output)
		assert.Assert(t, ok || len(secrets) == 0)
		checkStored(t, []byte(output), sandbox)
	})
}

func FuzzStoredJSON(f *testing.F) {
	f.Add(secretsJSON, "ralph-app")
	f.Add(`[{"service":"anthropic"}]`, "")
	f.Add("x\n{\"secrets\":null}\ny", "")
	f.Add(`{"secrets":[{"name":"a\u0000"}]}`, "x")
	f.Fuzz(func(t *testing.T, output, sandbox string) {
		checkStored(t, []byte(output), sandbox)
		// Whatever the names are, a list of them comes back.
		list, err := json.Marshal(map[string]any{"secrets": []map[string]string{{"scope": sandbox, "type": "service", "name": output}}})
		assert.NilError(t, err)
		got, err := Stored(list, string([]rune(sandbox)))
		assert.NilError(t, err)
		name := string([]rune(output)) // as JSON writes what is no UTF-8
		assert.Equal(t, got[name], oneWord(name), "%q", name)
	})
}

// checkStored wants that a sandbox gets at least what all sandboxes get, and
// that names are names.
func checkStored(t *testing.T, output []byte, sandbox string) {
	t.Helper()
	mine, err := Stored(output, sandbox)
	everybodys, err2 := Stored(output, "")
	assert.Equal(t, err == nil, err2 == nil)
	for name := range everybodys {
		assert.Assert(t, mine[name], "%q", name)
	}
	for name := range mine {
		assert.Assert(t, oneWord(name), "%q", name)
	}
}
