package credential

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"
)

// The Keychain is read only without a file.
func TestSignInFromKeychain(t *testing.T) {
	login := func(ends time.Time) string {
		return fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"sk-keychain","refreshToken":"sk-refresh","expiresAt":%d}}`, ends.UnixMilli())
	}
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	const signedIn = "/anthropic -> https://api.anthropic.com Authorization=Bearer sk-keychain"
	answer := func(text string) string {
		return `test "$*" = "find-generic-password -s Claude Code-credentials -w" || exit 1` + "\ncat <<'END'\n" + text + "\nEND\n"
	}
	for _, tc := range []struct {
		name, script  string
		env           map[string]string
		file          string
		want, warning string
	}{
		{name: "it is there", script: answer(login(later)), want: signedIn},
		{name: "in hexadecimal", script: answer(hex.EncodeToString([]byte(login(later) + "\n"))), want: signedIn},
		{name: "it has expired", script: answer(login(before)), warning: "which expired at"},
		{name: "it is not there", script: "echo 'The specified item could not be found in the keychain.' >&2; exit 44"},
		{name: "it is locked", script: "exit 36", warning: `reading your claude login ("Claude Code-credentials") from the Keychain: locked` + "\nHint: set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN instead\nHint: run \"security unlock-keychain\""},
		{name: "the user says no", script: "echo sk-words >&2; exit 128", warning: "access denied"},
		{name: "nothing that is known", script: "exit 3", warning: "ended with exit code 3"},
		{name: "it waits", script: "sleep 100", warning: "no answer within"},
		{name: "nonsense", script: answer("sk-nonsense")},
		{name: "a file counts more", script: "exit 3", file: strings.ReplaceAll(login(later), "sk-keychain", "sk-file"), want: strings.ReplaceAll(signedIn, "sk-keychain", "sk-file")},
		{name: "a key counts more", script: "exit 3", env: map[string]string{"ANTHROPIC_API_KEY": "sk-1"}, want: "/anthropic -> https://api.anthropic.com X-Api-Key=sk-1"},
		{name: "not for another folder", script: "exit 3", env: map[string]string{"CLAUDE_CONFIG_DIR": "/nowhere"}},
		{name: "not for others", script: "exit 3", env: map[string]string{"ANTHROPIC_BASE_URL": "https://gateway.example"}, want: "/anthropic -> https://gateway.example own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			home := fs.NewDir(t, "home")
			if tc.file != "" {
				fs.Apply(t, home, fs.WithDir(".claude", fs.WithFile(claudeCredentials, tc.file)))
			}
			program := fs.NewDir(t, "bin", fs.WithFile("security", "#!/bin/sh\n"+tc.script, fs.WithMode(0o755)))
			var warnings []string
			router := Router{
				LookupEnv: lookupIn(tc.env), Home: home.Path(), Keychain: filepath.Join(program.Path(), "security"),
				Warn: func(m string) { warnings = append(warnings, m) }, limit: 5 * time.Second,
			}
			if tc.name == "it waits" {
				router.limit = 100 * time.Millisecond
			}
			got, err := router.Route(t.Context(), "claude", nil)
			assert.NilError(t, err)
			line := ""
			for _, r := range got.Routes {
				line += routeLine(r)
			}
			assert.Equal(t, line, tc.want)
			assert.Check(t, is.Contains(strings.Join(warnings, "\n"), tc.warning))
			assert.Equal(t, len(warnings) > 0, tc.warning != "", "%q", warnings)
			assert.Check(t, !strings.Contains(strings.Join(warnings, "\n"), "sk-"))
		})
	}
}
