package agentconfig

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestSettingsThatDenyEverything(t *testing.T) {
	denied := func(rule string) string {
		return `~/.claude/settings.json denies what every run needs: permissions.deny has "` + rule + `"`
	}
	for _, tc := range []struct{ name, permissions, want string }{
		{"all commands", `{"deny":["WebFetch","Bash"]}`, denied("Bash")},
		{"all commands by pattern", `{"deny":["Bash(*)"]}`, denied("Bash(*)")},
		{"all commands by prefix", `{"deny":["Bash(:*)"]}`, denied("Bash(:*)")},
		{"all tools", `{"deny":["*","Bash"]}`, denied("*")},
		{
			"no bypass", `{"disableBypassPermissionsMode":"disable"}`,
			`~/.claude/settings.json keeps claude from running without prompts: permissions.disableBypassPermissionsMode is "disable"`,
		},
		{"some commands", `{"deny":["Bash(rm:*)","Read(./.env)","BashOutput"]}`, ""},
		{"allowed", `{"allow":["Bash"]}`, ""},
		{"nothing", `{}`, ""},
		{"another type", `{"deny":[1]}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := Collect("claude", home(t, map[string]string{".claude/settings.json": `{"permissions":` + tc.permissions + `}`}), none)
			assert.NilError(t, err)
			if tc.want == "" {
				assert.Equal(t, len(found.Notes), 0, "%v", found.Notes)
				return
			}
			assert.DeepEqual(t, found.Notes, []string{tc.want})
		})
	}
}
