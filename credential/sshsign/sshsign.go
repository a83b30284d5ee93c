// Package sshsign signs commits of an agent in a sandbox with the user's ssh-agent, without
// access to that agent: only two requests of the protocol are answered, for one key, and
// only git's data is signed.
package sshsign

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Key is the public key of signed commits.
type Key struct{ public ssh.PublicKey }

// Setting returns the literal key for git's user.signingKey.
func (k Key) Setting() string {
	return literal + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.public)))
}

// literal is the prefix of a literal key in user.signingKey.
const literal = "key::"

// maxKeyFile limits the file of a key, in bytes.
const maxKeyFile = 64 << 10

// ErrNotSet means that git has no signing key.
var ErrNotSet = hint.Wrap(errors.New("git has no ssh key to sign with"), "set it with %q and %q", "git config --global gpg.format ssh", "git config --global user.signingKey ~/.ssh/KEY.pub")

// ReadKey reads the key of git's gpg.format and user.signingKey: a literal key, the file of a
// public key, or that of a private key with a .pub file beside it. Private keys are not
// read.
func ReadKey(format, setting string) (Key, error) {
	if format != "ssh" || setting == "" {
		return Key{}, ErrNotSet
	}
	if text, ok := strings.CutPrefix(setting, literal); ok {
		return parseKey(text)
	}
	if strings.HasPrefix(setting, "ssh-") {
		return parseKey(setting)
	}
	if !filepath.IsAbs(setting) {
		return Key{}, hint.Wrap(fmt.Errorf("user.signingKey %q is neither an absolute path nor a key", setting), "write \"~/.ssh/KEY.pub\" or \"key::ssh-ed25519 …\"")
	}
	beside := setting
	if filepath.Ext(setting) != ".pub" {
		beside += ".pub"
	}
	text, err := readFile(beside)
	if errors.Is(err, fs.ErrNotExist) && beside != setting {
		text, err = readFile(setting)
	}
	if err != nil {
		return Key{}, fmt.Errorf("reading the signing key: %w", err)
	}
	key, err := parseKey(text)
	if err != nil {
		return Key{}, fmt.Errorf("reading the signing key %s: %w", setting, err)
	}
	return key, nil
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	return string(b), err
}

// parseKey parses a key in the format of authorized_keys.
func parseKey(text string) (Key, error) {
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return Key{}, hint.Wrap(errors.New("user.signingKey is not an ssh public key"), "name the file that ends in .pub")
	}
	if _, ok := public.(*ssh.Certificate); ok {
		return Key{}, hint.Wrap(errors.New("user.signingKey is a certificate, which is not supported"), "name the public key")
	}
	return Key{public}, nil
}
