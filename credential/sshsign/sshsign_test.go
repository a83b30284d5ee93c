package sshsign

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

func TestReadKey(t *testing.T) {
	key, _ := newKey(t)
	text := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.public)))
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{
		"id.pub": text + " una@example.com\n", "id": "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n", "public": text,
		"lonely": "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n",
	} {
		assert.NilError(t, os.WriteFile(path(name), []byte(content), 0o600))
	}
	for _, tc := range []struct{ name, format, setting, err string }{
		{"public key", "ssh", path("id.pub"), ""},
		{"private key with the public one beside it", "ssh", path("id"), ""},
		{"public key by another name", "ssh", path("public"), ""},
		{"literal", "ssh", "key::" + text, ""},
		{"literal of old", "ssh", text + " una@example.com", ""},
		{"private key alone", "ssh", path("lonely"), "is not an ssh public key"},
		{"no file", "ssh", path("none.pub"), "reading the signing key: open "},
		{"relative", "ssh", "id.pub", "is neither an absolute path nor a key"},
		{"nonsense", "ssh", "key::abc", "is not an ssh public key"},
		{"not set", "ssh", "", "git config --global user.signingKey"},
		{"OpenPGP", "openpgp", "0123ABCD", "git config --global gpg.format ssh"},
		{"no format", "", path("id.pub"), "git config --global gpg.format ssh"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ReadKey(tc.format, tc.setting)
			if tc.err != "" {
				assert.Assert(t, cmp.Contains(strings.Join(append([]string{fmt.Sprint(err)}, hint.Of(err)...), ": "), tc.err))
				assert.Assert(t, !strings.Contains(err.Error(), "secret"))
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, got.Setting(), "key::"+text)
		})
	}
}

func FuzzReadKey(f *testing.F) {
	key, _ := newKey(f)
	f.Add(strings.TrimPrefix(key.Setting(), "key::"))
	f.Add("ssh-rsa AAAA")
	f.Add("command=\"x\" ssh-ed25519 AAAA= c")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReadKey("ssh", "key::"+text)
		if err != nil {
			return
		}
		again, err := ReadKey("ssh", got.Setting())
		assert.NilError(t, err)
		assert.Equal(t, again.Setting(), got.Setting())
	})
}
