package sshsign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Messages of the ssh-agent protocol.
const (
	agentFailure    = 5
	agentIdentities = 11
	agentSign       = 13
)

// filter answers requests of the ssh-agent protocol.
type filter struct {
	key   Key
	agent Agent
	mu    sync.Mutex // signs one at a time: the user may be prompted for each
}

// answer returns the answer to a request: a failure for all but the two that are allowed.
func (f *filter) answer(ctx context.Context, request []byte) []byte {
	if bytes.Equal(request, []byte{agentIdentities}) {
		return f.identities()
	}
	data, flags, err := f.read(request)
	if err != nil {
		return []byte{agentFailure}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	signature, err := f.agent.sign(ctx, f.key, data, flags)
	if err != nil {
		return []byte{agentFailure} // the protocol has no reasons
	}
	return ssh.Marshal(struct {
		Signature []byte `sshtype:"14"`
	}{signature})
}

func (f *filter) identities() []byte {
	return ssh.Marshal(struct {
		Count   uint32 `sshtype:"12"`
		Blob    []byte
		Comment string
	}{1, f.key.public.Marshal(), ""})
}

// read parses a request to sign, and rejects all others.
func (f *filter) read(request []byte) (data []byte, flags uint32, err error) {
	var m struct {
		Blob  []byte `sshtype:"13"`
		Data  []byte
		Flags uint32
	}
	if len(request) == 0 || request[0] != agentSign {
		return nil, 0, errors.New("not a request to sign")
	}
	if err := ssh.Unmarshal(request, &m); err != nil {
		return nil, 0, err
	}
	if !bytes.Equal(m.Blob, f.key.public.Marshal()) {
		return nil, 0, errors.New("another key")
	}
	if err := f.checkFlags(m.Flags); err != nil {
		return nil, 0, err
	}
	return m.Data, m.Flags, checkSigned(m.Data)
}

// checkFlags rejects SHA-1, which git's signatures do not have.
func (f *filter) checkFlags(flags uint32) error {
	allowed := []agent.SignatureFlags{0}
	if f.key.public.Type() == ssh.KeyAlgoRSA {
		allowed = []agent.SignatureFlags{agent.SignatureFlagRsaSha256, agent.SignatureFlagRsaSha512}
	}
	if !slices.Contains(allowed, agent.SignatureFlags(flags)) {
		return fmt.Errorf("invalid flags %d for this key", flags)
	}
	return nil
}

// checkSigned rejects data other than digests of git in the format of OpenSSH's
// PROTOCOL.sshsig. The challenge of a login never has that format: it begins with the
// length of the session ID.
func checkSigned(data []byte) error {
	text, ok := strings.CutPrefix(string(data), wire.SignMagic)
	if !ok {
		return errors.New("not a signature of a file")
	}
	var m struct {
		Namespace, Reserved, Hash string
		Digest                    []byte
	}
	if err := ssh.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	lengths := map[string]int{"sha256": 32, "sha512": 64}
	switch {
	case m.Namespace != wire.SignNamespace:
		return fmt.Errorf("namespace %q instead of git's", m.Namespace)
	case m.Reserved != "":
		return errors.New("the reserved field is not empty")
	case len(m.Digest) == 0 || lengths[m.Hash] != len(m.Digest):
		return fmt.Errorf("not a digest of %q", m.Hash)
	}
	return nil
}
