package agentconfig

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// noteDenials adds notes about settings of claude with which no run can do anything, so that
// they are reported before the first one.
func (f *Files) noteDenials() {
	for _, one := range f.files {
		if path.Dir(one.name) != ".claude" || path.Ext(one.name) != ".json" {
			continue
		}
		var settings struct {
			Permissions struct {
				Deny    []any `json:"deny"`
				Disable any   `json:"disableBypassPermissionsMode"`
			} `json:"permissions"`
		}
		if json.Unmarshal(one.content, &settings) != nil {
			continue
		}
		for _, rule := range settings.Permissions.Deny {
			if rule, ok := rule.(string); ok && deniesWork(rule) {
				f.Notes = append(f.Notes, fmt.Sprintf("~/%s denies what every run needs: permissions.deny has %q", one.name, rule))
				break
			}
		}
		if settings.Permissions.Disable == "disable" {
			f.Notes = append(f.Notes, fmt.Sprintf(`~/%s keeps claude from running without prompts: permissions.disableBypassPermissionsMode is "disable"`, one.name))
		}
	}
}

// deniesWork reports whether a rule denies all tools, or all commands, without which an agent
// cannot finish a task.
func deniesWork(rule string) bool {
	tool, pattern, limited := strings.Cut(strings.TrimSpace(rule), "(")
	if tool != "Bash" && tool != "*" {
		return false
	}
	return !limited || pattern == "*)" || pattern == ":*)" || pattern == ")"
}
