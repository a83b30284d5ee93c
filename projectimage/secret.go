package projectimage

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/moby/buildkit/session/secrets/secretsprovider"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Secret says where the value of a secret of builds is read from, when a step
// asks for it.
type Secret = secretsprovider.Source

// ParseSecret reads where a secret comes from, as "docker build --secret" takes
// it: id=ID,src=FILE or id=ID,env=VARIABLE. With the ID alone it is the variable
// of that name, or else the file. The value is not read, but it has to be there.
// No error quotes what was given: a user may have given the secret itself.
func ParseSecret(text string) (Secret, error) {
	secret, err := readSecret(text)
	if err != nil {
		return Secret{}, fmt.Errorf("--secret: %w; write id=ID,src=FILE or id=ID,env=VARIABLE", err)
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
			return Secret{}, fmt.Errorf("--secret id=%s: there is no environment variable %s", termsafe.Visible(secret.ID), termsafe.Visible(secret.Env))
		}
		return secret, nil
	}
	info, err := os.Stat(secret.FilePath)
	switch {
	case err != nil:
		return Secret{}, fmt.Errorf("--secret id=%s: %w", termsafe.Visible(secret.ID), err)
	case !info.Mode().IsRegular():
		return Secret{}, fmt.Errorf("--secret id=%s: %s is %s, where a file is expected", termsafe.Visible(secret.ID), termsafe.Visible(secret.FilePath), kind(info.Mode()))
	case info.Size() > secretsprovider.MaxSecretSize:
		return Secret{}, fmt.Errorf("--secret id=%s: %s is larger than %d KiB", termsafe.Visible(secret.ID), termsafe.Visible(secret.FilePath), secretsprovider.MaxSecretSize>>10)
	}
	return secret, nil
}

// readSecret takes the text apart.
func readSecret(text string) (Secret, error) {
	fields, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return Secret{}, errors.New("it cannot be read")
	}
	var secret Secret
	var source, origin string
	for _, field := range fields {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return Secret{}, errors.New("one of its parts has no \"=\"")
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
			return Secret{}, errors.New("it has a part that is none of id, src and env")
		}
	}
	switch {
	case origin != "" && origin != "file" && origin != "env":
		return Secret{}, errors.New("its type is neither file nor env")
	case origin == "env" && secret.Env == "":
		secret.Env = source
	default:
		secret.FilePath = source
	}
	switch {
	case secret.ID == "":
		return Secret{}, errors.New("it has no id")
	case secret.Env != "" && secret.FilePath != "":
		return Secret{}, errors.New("it has both src and env")
	}
	return secret, nil
}
