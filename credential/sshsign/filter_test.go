package sshsign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

// userAgent is an ssh-agent with these private keys.
func userAgent(t testing.TB, private ...any) (Agent, agent.Agent) {
	t.Helper()
	ring := agent.NewKeyring()
	for _, key := range private {
		assert.NilError(t, ring.Add(agent.AddedKey{PrivateKey: key}))
	}
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = agent.ServeAgent(ring, conn)
				_ = conn.Close()
			}()
		}
	}()
	return Agent(socket), ring
}

func newKey(t testing.TB) (Key, any) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	assert.NilError(t, err)
	return publicOf(t, private), private
}

func newRSAKey(t testing.TB) (Key, any) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	assert.NilError(t, err)
	return publicOf(t, private), private
}

func publicOf(t testing.TB, private any) Key {
	t.Helper()
	s, err := ssh.NewSignerFromKey(private)
	assert.NilError(t, err)
	return Key{s.PublicKey()}
}

// blob returns data to sign in the format of PROTOCOL.sshsig.
func blob(namespace, reserved, hash string, digest []byte) []byte {
	return append([]byte("SSHSIG"), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Digest                    []byte
	}{namespace, reserved, hash, digest})...)
}

func signRequest(key Key, data []byte, flags uint32) []byte {
	return ssh.Marshal(struct {
		Blob  []byte `sshtype:"13"`
		Data  []byte
		Flags uint32
	}{key.public.Marshal(), data, flags})
}

var digest = bytes.Repeat([]byte{7}, 64)

func TestGitSignaturesAreSigned(t *testing.T) {
	key, private := newKey(t)
	rsaKey, rsaPrivate := newRSAKey(t)
	socket, _ := userAgent(t, private, rsaPrivate)
	for _, tc := range []struct {
		name  string
		key   Key
		data  []byte
		flags uint32
	}{
		{"sha512", key, blob("git", "", "sha512", digest), 0},
		{"sha256", key, blob("git", "", "sha256", digest[:32]), 0},
		{"RSA", rsaKey, blob("git", "", "sha512", digest), 4},
		{"RSA with SHA-256", rsaKey, blob("git", "", "sha512", digest), 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &filter{key: tc.key, agent: socket}
			answer := f.answer(t.Context(), signRequest(tc.key, tc.data, tc.flags))
			var m struct {
				Signature []byte `sshtype:"14"`
			}
			assert.NilError(t, ssh.Unmarshal(answer, &m))
			var signature ssh.Signature
			assert.NilError(t, ssh.Unmarshal(m.Signature, &signature))
			assert.NilError(t, tc.key.public.Verify(tc.data, &signature))
		})
	}
}

func TestOtherDataIsNotSigned(t *testing.T) {
	key, private := newKey(t)
	other, otherPrivate := newKey(t)
	rsaKey, rsaPrivate := newRSAKey(t)
	socket, ring := userAgent(t, private, otherPrivate, rsaPrivate)
	good := blob("git", "", "sha512", digest)
	session := append(binary.BigEndian.AppendUint32(nil, 32), append(bytes.Repeat([]byte{1}, 32), "2\x00\x00\x00\x03una\x00\x00\x00\x0essh-connection"...)...)
	code := func(n byte, rest ...byte) []byte { return append([]byte{n}, rest...) }
	for _, tc := range []struct {
		name    string
		key     Key
		request []byte
	}{
		{"nothing", key, nil},
		{"keys of version 1", key, code(1)},
		{"a longer request for keys", key, code(11, 0)},
		{"sign: no content", key, code(13)},
		{"sign: cut off", key, signRequest(key, good, 0)[:40]},
		{"sign: more than a request", key, append(signRequest(key, good, 0), 0)},
		{"sign: another key", key, signRequest(other, good, 0)},
		{"sign: a session's challenge", key, signRequest(key, session, 0)},
		{"sign: raw data", key, signRequest(key, []byte("tree 123"), 0)},
		{"sign: no data", key, signRequest(key, nil, 0)},
		{"sign: the magic alone", key, signRequest(key, []byte("SSHSIG"), 0)},
		{"sign: more than a blob", key, signRequest(key, append(slices.Clone(good), 0), 0)},
		{"sign: another namespace", key, signRequest(key, blob("file", "", "sha512", digest), 0)},
		{"sign: a namespace like git's", key, signRequest(key, blob("git\x00", "", "sha512", digest), 0)},
		{"sign: no namespace", key, signRequest(key, blob("", "", "sha512", digest), 0)},
		{"sign: reserved", key, signRequest(key, blob("git", "x", "sha512", digest), 0)},
		{"sign: another hash", key, signRequest(key, blob("git", "", "sha1", digest[:20]), 0)},
		{"sign: no hash", key, signRequest(key, blob("git", "", "", nil), 0)},
		{"sign: digest of another length", key, signRequest(key, blob("git", "", "sha256", digest), 0)},
		{"sign: flags", key, signRequest(key, good, 2)},
		{"sign: RSA with SHA-1", rsaKey, signRequest(rsaKey, good, 0)},
		{"sign: RSA with unknown flags", rsaKey, signRequest(rsaKey, good, 6)},
		{"add", key, code(17, 0, 0, 0, 0)},
		{"remove", key, ssh.Marshal(struct {
			Blob []byte `sshtype:"18"`
		}{key.public.Marshal()})},
		{"remove all", key, code(19)},
		{"add a token", key, code(20)},
		{"remove a token", key, code(21)},
		{"lock", key, code(22, 0, 0, 0, 1, 'x')},
		{"unlock", key, code(23, 0, 0, 0, 1, 'x')},
		{"add with constraints", key, code(25)},
		{"add a token with constraints", key, code(26)},
		{"an extension", key, append(code(27, 0, 0, 0, 5), "query"...)},
		{"an answer", key, code(14, 0, 0, 0, 0)},
		{"unknown", key, code(200)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &filter{key: tc.key, agent: socket}
			assert.DeepEqual(t, f.answer(t.Context(), tc.request), []byte{5})
		})
	}
	keys, err := ring.List()
	assert.NilError(t, err)
	assert.Equal(t, len(keys), 3, "the user's agent has what it had")
}

func TestOnlyTheKeyIsListed(t *testing.T) {
	key, private := newKey(t)
	_, other := newKey(t)
	socket, _ := userAgent(t, other, private)
	client, server := net.Pipe()
	f := &filter{key: key, agent: socket}
	go f.serve(t.Context(), server)
	keys, err := agent.NewClient(client).List()
	assert.NilError(t, err)
	assert.Equal(t, len(keys), 1)
	assert.DeepEqual(t, keys[0].Blob, key.public.Marshal())
	assert.NilError(t, errors.Join(client.Close(), server.Close()))
}

// An agent that is locked, not running or without the key does not sign.
func TestRejectedAgentRequests(t *testing.T) {
	key, private := newKey(t)
	socket, ring := userAgent(t, private)
	f := &filter{key: key, agent: socket}
	request := signRequest(key, blob("git", "", "sha512", digest), 0)
	assert.Equal(t, f.answer(t.Context(), request)[0], byte(14))
	assert.NilError(t, f.agent.Check(t.Context(), key))

	assert.NilError(t, ring.Lock([]byte("secret")))
	assert.DeepEqual(t, f.answer(t.Context(), request), []byte{5})
	err := f.agent.Check(t.Context(), key)
	assert.Check(t, is.Contains(strings.Join(hint.Of(err), "\n"), "ssh-add"))
	assert.Check(t, is.ErrorContains(err, ssh.FingerprintSHA256(key.public)))

	f.agent = Agent(filepath.Join(t.TempDir(), "none"))
	assert.DeepEqual(t, f.answer(t.Context(), request), []byte{5})
	assert.Check(t, is.ErrorContains(f.agent.Check(t.Context(), key), "connecting to the ssh-agent: "))
	assert.Check(t, is.ErrorContains(Agent("").Check(t.Context(), key), "SSH_AUTH_SOCK is not set"))
}

// Only git's data is signed.
func FuzzAnswer(f *testing.F) {
	key, private := newKey(f)
	socket, _ := userAgent(f, private)
	good := blob("git", "", "sha512", digest)
	f.Add([]byte{11})
	f.Add(signRequest(key, good, 0))
	f.Add(signRequest(key, good, 0)[:30])
	f.Add(signRequest(key, []byte("challenge"), 0))
	f.Add(signRequest(key, blob("file", "", "sha512", digest), 0))
	f.Add([]byte{19})
	f.Fuzz(func(t *testing.T, request []byte) {
		answer := (&filter{key: key, agent: socket}).answer(t.Context(), request)
		switch answer[0] {
		case 5:
		case 12:
			assert.DeepEqual(t, request, []byte{11})
		case 14:
			at := 1 + 4 + len(key.public.Marshal()) + 4
			assert.Assert(t, bytes.HasPrefix(request[at:], []byte("SSHSIG\x00\x00\x00\x03git\x00\x00\x00\x00\x00\x00\x00\x06sha")))
		default:
			t.Fatalf("answer %x", answer)
		}
	})
}
