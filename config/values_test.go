package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// The commented file names every setting, with its default.
func TestTemplateHasTheDefaults(t *testing.T) {
	e, err := Load(Sources{UserDir: write(t, "config.toml", uncommented())})
	assert.NilError(t, err)
	want := defaults()
	stall := DefaultStall
	want.Loop.Stall = &stall
	want.Checks, want.Setup = e.Checks, e.Setup // empty, not nil
	assert.Check(t, is.Len(slices.Concat(e.Checks, e.Setup), 0))
	assert.DeepEqual(t, e.Config, want)
	for _, s := range settings() {
		table, _, _ := strings.Cut(s.key, ".")
		if origin := e.Origins[s.key]; s.setNamed == nil && s.form != names && origin.Kind != FromUser && !strings.Contains(userTemplate, "["+table+"]") {
			t.Errorf("the template lacks %s", s.key)
		}
	}
}

func TestValuesHaveTheirOrigins(t *testing.T) {
	root := write(t, "ralph.toml", "[agent]\nname = \"mine\"\n[checks]\ncommands = [\"make test\"]\n[agents.mine]\ncommand = [\"run\", \"{prompt}\"]\n[env]\npass = [\"ONE\"]\n")
	user := write(t, "config.toml", "[env]\npass = [\"TWO\"]\n[notify]\nwebhook = \"https://example.com/secret\"\n")
	e, err := Load(Sources{Root: root, UserDir: user, Getenv: env(map[string]string{"RALPH_CPUS": "2"}), Overrides: Overrides{Memory: ptr("4g")}})
	assert.NilError(t, err)
	values, err := e.Values()
	assert.NilError(t, err)
	found := map[string]Value{}
	for _, v := range values {
		found[v.Key] = v
	}
	repository := filepath.Join(root, "ralph.toml")
	for _, want := range []Value{
		{"agent.name", "mine", repository + ":2"},
		{"agents.mine.command", `["run","{prompt}"]`, repository + ":6"},
		{"checks.commands", `["make test"]`, repository + ":4"},
		{"env.pass", `["ONE","TWO"]`, filepath.Join(user, "config.toml") + ":2"},
		{"sandbox.resources.cpus", "2", "RALPH_CPUS"},
		{"sandbox.resources.memory", "4g", "--memory"},
		{"sandbox.resources.pids", "1024", "default"},
		{"sandbox.network.presets", `["agent","git","packages"]`, "default"},
		{"sandbox.network.allowed", "[]", "default"},
		{"loop.max_cost_usd", "0", "default"},
		{"notify.webhook", "(hidden)", filepath.Join(user, "config.toml") + ":4"},
	} {
		assert.Check(t, is.DeepEqual(found[want.Key], want))
	}
}

func TestUserFileIsCheckedBeforeItIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ralph")
	path, text, err := UserFile(dir)
	assert.NilError(t, err)
	assert.NilError(t, WriteUserFile(dir, text))
	assert.ErrorContains(t, WriteUserFile(dir, "[agent]\nnam = \"shell\"\n"), path+":2:1")
	_, now, err := UserFile(dir)
	assert.NilError(t, err)
	assert.Equal(t, now, text)
}

func TestInitKeepsAnExistingFile(t *testing.T) {
	root := t.TempDir()
	path, err := Init(root)
	assert.NilError(t, err)
	b, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Equal(t, string(b), template)
	_, err = Init(root)
	assert.ErrorIs(t, err, os.ErrExist)
}
