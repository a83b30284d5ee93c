package projectimage

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/moby/buildkit/session/secrets/secretsprovider"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Secret is the source of a build secret.
type Secret = secretsprovider.Source

// ParseSecret parses a secret as "docker build --secret" does: id=ID,src=FILE or
// id=ID,env=VARIABLE. With an ID alone, it is the variable of that name, or else the file.
// The value must exist, but is not read. No error quotes the text, which may be the secret.
func ParseSecret(text string) (Secret, error) {
	secret, err := readSecret(text)
	if err != nil {
		return Secret{}, hint.Wrap(fmt.Errorf("--secret: %w", err), "use id=ID,src=FILE or id=ID,env=VARIABLE")
	}
	if secret.Env == "" && secret.FilePath == "" {
		if _, ok := os.LookupEnv(secret.ID); ok {
			secret.Env = secret.ID
		} else {
			secret.FilePath = secret.ID
		}
	}
	if secret.Env != "" {
		if _, ok := os.LookupEnv(secret.Env); !ok {
			return Secret{}, fmt.Errorf("--secret id=%s: no environment variable %s", termsafe.Visible(secret.ID), termsafe.Visible(secret.Env))
		}
		return secret, nil
	}
	info, err := os.Stat(secret.FilePath)
	switch {
	case err != nil:
		return Secret{}, fmt.Errorf("--secret id=%s: %w", termsafe.Visible(secret.ID), err)
	case !info.Mode().IsRegular():
		return Secret{}, fmt.Errorf("--secret id=%s: %s is %s, not a regular file", termsafe.Visible(secret.ID), termsafe.Visible(secret.FilePath), kind(info.Mode()))
	case info.Size() > secretsprovider.MaxSecretSize:
		return Secret{}, fmt.Errorf("--secret id=%s: %s is larger than %d KiB", termsafe.Visible(secret.ID), termsafe.Visible(secret.FilePath), secretsprovider.MaxSecretSize>>10)
	}
	return secret, nil
}

// readSecret parses the fields.
func readSecret(text string) (Secret, error) {
	fields, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return Secret{}, errors.New("invalid CSV")
	}
	var secret Secret
	var source, origin string
	for _, field := range fields {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return Secret{}, errors.New("invalid field: want KEY=VALUE")
		}
		switch strings.ToLower(key) {
		case "id":
			secret.ID = value
		case "src", "source":
			source = value
		case "env":
			secret.Env = value
		case "type":
			origin = value
		default:
			return Secret{}, errors.New("unknown key: use id, src or env")
		}
	}
	switch {
	case origin != "" && origin != "file" && origin != "env":
		return Secret{}, errors.New("type must be file or env")
	case origin == "env" && secret.Env == "":
		secret.Env = source
	default:
		secret.FilePath = source
	}
	switch {
	case secret.ID == "":
		return Secret{}, errors.New("id is missing")
	case secret.Env != "" && secret.FilePath != "":
		return Secret{}, errors.New("src and env are mutually exclusive")
	}
	return secret, nil
}
