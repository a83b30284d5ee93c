package sandboxcli

import (
	"io"
	"slices"
	"strings"
)

// secret records that a secret exists, without its value.
type secret struct {
	Scope string `json:"scope"` // a sandbox, or "global"
	Type  string `json:"type"`
	Name  string `json:"name"`
	Value string `json:"secret"` // masked
}

const secretsFile = "secrets.json"

func (c *call) secrets() ([]secret, error) {
	secrets := []secret{}
	_, err := c.store.readJSON(&secrets, secretsFile)
	return secrets, err
}

func (c *call) changeSecrets(change func([]secret) []secret) error {
	unlock, err := c.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	secrets, err := c.secrets()
	if err != nil {
		return err
	}
	return c.store.writeJSON(change(secrets), secretsFile)
}

// secret keeps track of secrets (DOC S7). Nothing is injected anywhere.
func (c *call) secret(args []string) (int, error) {
	verb, args := first(args)
	switch verb {
	case "set":
		return c.secretSet(args)
	case "ls":
		return c.secretLs(args)
	case "rm":
		return c.secretRm(args)
	}
	return 0, c.fail("unknown command %q for \"sbx secret\"", verb)
}

func (c *call) secretSet(args []string) (int, error) {
	fs := c.flags("secret set")
	scope := fs.String("sandbox", "global", "") // MEAS v0.38 S25: global by default
	token := fs.StringP("token", "t", "", "")
	command := fs.String("command", "", "")
	ref := fs.String("ref", "", "")
	global := fs.BoolP("global", "g", false, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("secret set", args, 1, 1); err != nil {
		return 0, err
	}
	if *global && c.since(38) {
		c.print("Flag --global has been deprecated, secrets are global by default\n") // MEAS v0.38 S25, on stdout
	}
	if *token == "" && *command == "" && *ref == "" {
		if in, _ := c.terminals(); in && c.noInput {
			return 0, c.fail("a value is needed, and --no-input forbids to ask; run: sbx secret set %s --token VALUE", args[0])
		}
		value, err := io.ReadAll(c.stdin) // ? that it reads all of stdin
		if err != nil {
			return 0, err
		}
		if strings.TrimSpace(string(value)) == "" {
			return 0, c.fail("no value for the secret %q", args[0])
		}
	}
	entry := secret{Scope: *scope, Type: "service", Name: args[0], Value: "****"}
	return 0, c.changeSecrets(func(all []secret) []secret {
		all = slices.DeleteFunc(all, func(s secret) bool { return s.Scope == entry.Scope && s.Name == entry.Name })
		return append(all, entry)
	})
}

func (c *call) secretLs(args []string) (int, error) {
	fs := c.flags("secret ls")
	asJSON := new(bool)
	if c.since(42) { // REL S2
		asJSON = fs.Bool("json", false, "")
	}
	sandbox := fs.String("sandbox", "", "")
	service := fs.String("service", "", "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("secret ls", args, 0, 0); err != nil {
		return 0, err
	}
	secrets, err := c.secrets()
	if err != nil {
		return 0, err
	}
	secrets = slices.DeleteFunc(secrets, func(s secret) bool {
		return *sandbox != "" && s.Scope != *sandbox && s.Scope != "global" || *service != "" && s.Name != *service
	})
	if *asJSON { // the shape is ?
		return 0, c.printJSON(map[string]any{"secrets": secrets})
	}
	c.print("SCOPE TYPE NAME SECRET\n") // CODE S23b; the spacing is ?
	for _, s := range secrets {
		c.print("%s %s %s %s\n", s.Scope, s.Type, s.Name, s.Value)
	}
	return 0, nil
}

func (c *call) secretRm(args []string) (int, error) {
	fs := c.flags("secret rm")
	scope := fs.String("sandbox", "global", "")
	force := fs.BoolP("force", "f", false, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("secret rm", args, 1, 1); err != nil {
		return 0, err
	}
	if !*force {
		if err := c.confirm("Remove secret '"+args[0]+"'? (y/N): ", "sbx secret rm --force "+args[0]); err != nil {
			if !c.since(42) { // MEAS v0.38 S23b: exit 0; since when it is an error is ?
				c.print("Cancelled\n")
				return 0, nil
			}
			return 0, err
		}
	}
	removed := false
	err = c.changeSecrets(func(all []secret) []secret {
		return slices.DeleteFunc(all, func(s secret) bool {
			hit := s.Name == args[0] && s.Scope == *scope
			removed = removed || hit
			return hit
		})
	})
	if err == nil && !removed {
		err = c.fail("secret '%s' not found", args[0]) // ?
	}
	return 0, err
}
