// Package sshsign lets an agent in a sandbox have its commits signed by the
// user's ssh-agent, without giving it that agent: of the protocol's requests
// only two are answered, for one key, and only what git signs is signed.
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

// Key is the public key of what commits are signed with.
type Key struct{ public ssh.PublicKey }

// Setting is the key as git's user.signingKey has it, without a file.
func (k Key) Setting() string {
	return literal + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.public)))
}

// literal begins a user.signingKey that is the key itself.
const literal = "key::"

// maxKeyFile bounds what is read of a key's file, in bytes.
const maxKeyFile = 64 << 10

// ErrNotSet says that git has no signing key.
var ErrNotSet = hint.Wrap(errors.New("git has no ssh key to sign with"), "set it with %q and %q", "git config --global gpg.format ssh", "git config --global user.signingKey ~/.ssh/KEY.pub")

// ReadKey reads what git's gpg.format and user.signingKey name: a literal key,
// the file of a public key, or that of a private key whose .pub is beside it.
// Private keys are not read.
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

// parseKey reads a key as authorized_keys has it.
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
