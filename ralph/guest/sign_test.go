package guest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestParseSignCall(t *testing.T) {
	for _, tc := range []struct {
		name, args string
		want       signCall
		err        string
	}{
		{"a file with the key", "-Y sign -n git -f KEY FILE", signCall{"KEY", "FILE"}, ""},
		{"a literal key", "-Y sign -n git -f KEY -U FILE", signCall{"KEY", "FILE"}, ""},
		{"another order", "-U -f KEY -n git -Y sign FILE", signCall{"KEY", "FILE"}, ""},
		{"verifying", "-Y verify -n git -f KEY -I una -s SIG", signCall{}, `unknown option "-I"`},
		{"verifying", "-Y find-principals -f KEY FILE", signCall{}, `operation "find-principals" is not supported`},
		{"another namespace", "-Y sign -n file -f KEY FILE", signCall{}, `namespace "file" is not supported`},
		{"no namespace", "-Y sign -f KEY FILE", signCall{}, `namespace "" is not supported`},
		{"no key", "-Y sign -n git FILE", signCall{}, "want arguments"},
		{"no file", "-Y sign -n git -f KEY", signCall{}, "want arguments"},
		{"two files", "-Y sign -n git -f KEY FILE FILE", signCall{}, "want arguments"},
		{"standard input", "-Y sign -n git -f KEY -", signCall{}, "want arguments"},
		{"no value", "-Y sign -n git -f", signCall{}, "want arguments"},
		{"nothing", "", signCall{}, `operation "" is not supported`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseSignCall(strings.Fields(tc.args))
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, got, tc.want)
		})
	}
}

// signSandbox is a folder with a file, a public key, and a socket behind which an
// ssh-agent has the key.
type signing struct {
	dir, socket string
	public      ssh.PublicKey
	ring        agent.Agent
}

func newSigning(t *testing.T, private any) signing {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(private)
	assert.NilError(t, err)
	s := signing{dir: t.TempDir(), public: signer.PublicKey(), ring: agent.NewKeyring()}
	s.socket = filepath.Join(s.dir, "s")
	assert.NilError(t, s.ring.Add(agent.AddedKey{PrivateKey: private}))
	assert.NilError(t, os.WriteFile(filepath.Join(s.dir, "key"), ssh.MarshalAuthorizedKey(s.public), 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(s.dir, "commit"), []byte("tree 1\n"), 0o600))
	listener, err := net.Listen("unix", s.socket)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(s.ring, conn) }()
		}
	}()
	return s
}

func (s signing) sign(socket string) (code int, stderr string) {
	var b bytes.Buffer
	getenv := func(name string) string { return map[string]string{wire.SignSocketEnv: socket}[name] }
	code = Sign([]string{"-Y", "sign", "-n", "git", "-f", filepath.Join(s.dir, "key"), filepath.Join(s.dir, "commit")}, getenv, &b)
	return code, b.String()
}

func TestSign(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	assert.NilError(t, err)
	rivest, err := rsa.GenerateKey(rand.Reader, 2048)
	assert.NilError(t, err)
	for name, private := range map[string]any{"ed25519": edwards, "RSA": rivest} {
		t.Run(name, func(t *testing.T) {
			s := newSigning(t, private)
			code, stderr := s.sign(s.socket)
			assert.Equal(t, code, 0, stderr)
			text, err := os.ReadFile(filepath.Join(s.dir, "commit.sig"))
			assert.NilError(t, err)
			for line := range strings.Lines(string(text)) {
				assert.Assert(t, len(line) <= 71, line)
			}
			block, rest := pem.Decode(text)
			assert.Assert(t, block != nil && len(rest) == 0)
			assert.Equal(t, block.Type, "SSH SIGNATURE")
			var m struct {
				Version                   uint32
				Public                    []byte
				Namespace, Reserved, Hash string
				Signature                 []byte
			}
			assert.NilError(t, ssh.Unmarshal(bytes.TrimPrefix(block.Bytes, []byte("SSHSIG")), &m))
			assert.DeepEqual(t, m.Public, s.public.Marshal())
			assert.Equal(t, m.Version, uint32(1))
			assert.Equal(t, m.Namespace+m.Reserved+m.Hash, "gitsha512")
			var signature ssh.Signature
			assert.NilError(t, ssh.Unmarshal(m.Signature, &signature))
			assert.NilError(t, s.public.Verify(signedData([]byte("tree 1\n")), &signature))
		})
	}
}

func TestSignReportsFailures(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	assert.NilError(t, err)
	s := newSigning(t, private)
	for _, tc := range []struct{ name, socket, want string }{
		{"no socket", "", "signing is not enabled: RALPH_SIGN_SOCKET is not set\nHint: start the loop with --sign\n"},
		{"no listener", filepath.Join(s.dir, "none"), "\nHint: the docker ralph command that signs has ended or detached"},
		{"a locked agent", s.socket, "\nHint: check with \"ssh-add -l\" outside of the sandbox"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_ = s.ring.Lock([]byte("secret"))
			code, stderr := s.sign(tc.socket)
			assert.Equal(t, code, 1)
			assert.Check(t, is.Contains(stderr, tc.want))
			assert.Check(t, !strings.Contains(stderr, "usage:"), "git would take that for an old ssh-keygen")
			_, err := os.Stat(filepath.Join(s.dir, "commit.sig"))
			assert.Assert(t, os.IsNotExist(err))
		})
	}
}
