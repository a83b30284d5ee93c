package config

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestNotify(t *testing.T) {
	load := func(content string) (Effective, error) {
		return Load(Sources{Root: t.TempDir(), UserDir: write(t, "config.toml", content)})
	}
	e, err := load("[notify]\ncommand = [\"notify-send\", \"docker ralph\"]\nwebhook = \"https://example.com/hook?a=b\"\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, e.Notify, Notify{Command: []string{"notify-send", "docker ralph"}, Webhook: "https://example.com/hook?a=b"})
	e, err = load("[notify]\ncommand = []\nwebhook = \"\"\n")
	assert.NilError(t, err)
	assert.Assert(t, !e.Notify.Enabled())
	for content, message := range map[string]string{
		"command = [\"./notify.sh\"]":      "must begin with the name or the absolute path of a program",
		"command = [\"bin/notify\"]":       "must begin with the name or the absolute path of a program",
		"command = [\"\"]":                 "must begin with the name or the absolute path of a program",
		"command = \"notify-send\"":        "must be a list of strings",
		"webhook = \"file:///etc/passwd\"": "must be a URL such as",
		"webhook = \"example.com/hook\"":   "must be a URL such as",
		"webhook = \"https://\"":           "must be a URL such as",
	} {
		_, err := load("[notify]\n" + content + "\n")
		assert.Check(t, err != nil, content)
		assert.ErrorContains(t, err, message)
	}
}

func TestReceipts(t *testing.T) {
	const notes = "[receipts]\nnotes = true\n"
	e, err := Load(Sources{Root: t.TempDir(), UserDir: write(t, "config.toml", notes)})
	assert.NilError(t, err)
	assert.Assert(t, e.Receipts.Notes)
	_, err = Load(Sources{Root: write(t, "ralph.toml", notes), UserDir: t.TempDir()})
	assert.ErrorContains(t, err, "allowed only in your own configuration")
}
