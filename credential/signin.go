package credential

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Files with the agents' own logins. They are read for every command, and refreshed only by
// the agent on the host.
const (
	claudeCredentials = ".credentials.json"
	codexCredentials  = "auth.json"
)

// claudeLogin is Claude Code's login, in a file or in the Keychain.
type claudeLogin struct {
	OAuth struct {
		AccessToken string `json:"accessToken"`
		ExpiresAt   int64  `json:"expiresAt"` // milliseconds
	} `json:"claudeAiOauth"`
}

// claudeSignIn returns the token of Claude Code's login.
func (r Router) claudeSignIn(ctx context.Context) (key, string) {
	var file claudeLogin
	if !r.readSignIn("CLAUDE_CONFIG_DIR", ".claude", claudeCredentials, &file) {
		file = r.claudeKeychain(ctx)
	}
	if file.OAuth.AccessToken == "" {
		return key{}, ""
	}
	if ends := file.OAuth.ExpiresAt; ends != 0 && time.Now().UnixMilli() >= ends {
		r.warn(fmt.Sprintf("Warning: ignoring your claude login, which expired at %s\nHint: renew it with \"claude\" on this machine, or set ANTHROPIC_API_KEY",
			time.UnixMilli(ends).Format(time.DateTime)))
		return key{}, ""
	}
	return bearer("CLAUDE_CODE_OAUTH_TOKEN"), file.OAuth.AccessToken
}

// claudeKeychain returns Claude Code's login in the Keychain. Logins of other directories
// have other items.
func (r Router) claudeKeychain(ctx context.Context) (login claudeLogin) {
	if r.Keychain == "" || r.value("CLAUDE_CONFIG_DIR") != "" {
		return login
	}
	printed, err := r.keychain(ctx, claudeItem)
	if err != nil {
		if ctx.Err() == nil {
			err = hint.Wrap(fmt.Errorf("reading your claude login (%q) from the Keychain: %w", claudeItem, err), "set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN instead")
			r.warn(strings.Join(append([]string{"Warning: " + err.Error()}, hint.Of(err)...), "\nHint: "))
		}
		return login
	}
	if json.Unmarshal(keychainText(printed), &login) != nil {
		return claudeLogin{}
	}
	return login
}

// codexSignIn returns the API key of codex's login. A login with ChatGPT has
// none.
func (r Router) codexSignIn(context.Context) (key, string) {
	var file struct {
		Key string `json:"OPENAI_API_KEY"`
	}
	r.readSignIn("CODEX_HOME", ".codex", codexCredentials, &file)
	return bearer("CODEX_API_KEY"), file.Key
}

// readSignIn reads a login file of an agent. Missing and invalid ones are ignored.
func (r Router) readSignIn(variable, folder, name string, into any) bool {
	dir := r.value(variable)
	if dir == "" && r.Home != "" {
		dir = filepath.Join(r.Home, folder)
	}
	if !filepath.IsAbs(dir) {
		return false
	}
	text, ok := readSmall(filepath.Join(dir, name))
	return ok && json.Unmarshal(text, into) == nil
}

func (r Router) warn(message string) {
	if r.Warn != nil {
		r.Warn(message)
	}
}
