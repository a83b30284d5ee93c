package config

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
)

// Notify says where events of a loop are sent. Only the user configures it: a
// repository must not choose a program or an address.
type Notify struct {
	// Command is a program and its arguments; empty for none.
	Command []string `json:"command,omitempty"`
	// Webhook is a URL, which can contain a secret; empty for none.
	Webhook string `json:"webhook,omitempty"`
}

// Enabled reports whether anything is configured.
func (n Notify) Enabled() bool { return len(n.Command) > 0 || n.Webhook != "" }

// notifySettings are the keys of [notify].
func notifySettings() []setting {
	return []setting{
		{key: "notify.command", form: list, set: userOnly(func(c *Config, v string) (err error) {
			c.Notify.Command, err = decodeStrings(v)
			if err != nil || len(c.Notify.Command) == 0 {
				return err
			}
			// A relative path would be looked up in the repository.
			if program := c.Notify.Command[0]; program == "" || filepath.Base(program) != program && !filepath.IsAbs(program) {
				return errors.New("must begin with the name or the absolute path of a program")
			}
			return nil
		})},
		{key: "receipts.notes", form: boolForm, set: userOnly(func(c *Config, v string) error {
			c.Receipts.Notes = v == "true"
			return nil
		})},
		{key: "notify.webhook", form: stringForm, secret: true, set: userOnly(func(c *Config, v string) error {
			c.Notify.Webhook = v
			return checkWebhook(v)
		})},
	}
}

// userOnly rejects a setting in the repository's file.
func userOnly(set func(c *Config, v string) error) func(*Config, string, OriginKind) error {
	return func(c *Config, v string, from OriginKind) error {
		if from == FromRepository {
			return errors.New("allowed only in your own configuration, ralph/" + userFile + " in Docker's configuration directory")
		}
		return set(c, v)
	}
}

func checkWebhook(v string) error {
	if v == "" {
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(v, " \t\r\n") {
		return errors.New(`must be a URL such as "https://example.com/hook"`) // without the value, which can be a secret
	}
	return nil
}
