package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Messages of the ssh-agent protocol.
const (
	agentSign   = 13
	agentSigned = 14
	rsaSHA512   = 4 // flag
)

// maxAgentMessage is in bytes. The longest keys take a few thousand.
const maxAgentMessage = 64 << 10

// signTimeout allows the user to touch a token or answer a prompt.
const signTimeout = 3 * time.Minute

// requestSignature requests a signature through the socket.
func requestSignature(socket string, public, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), signTimeout) //nolint:forbidigo // run by git as a program
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connecting to the signing docker ralph command, which has ended or detached: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(signTimeout)); err != nil {
		return nil, fmt.Errorf("requesting a signature: %w", err)
	}
	if _, err := conn.Write(signRequest(public, data)); err != nil {
		return nil, fmt.Errorf("requesting a signature: %w", err)
	}
	return readSignature(conn)
}

func signRequest(public, data []byte) []byte {
	var flags uint32
	if kind, _, err := cutString(public); err == nil && bytes.Equal(kind, []byte("ssh-rsa")) {
		flags = rsaSHA512 // SSHSIG does not allow SHA-1
	}
	message := appendStrings([]byte{agentSign}, public, data)
	message = binary.BigEndian.AppendUint32(message, flags)
	return appendStrings(nil, message)
}

// errNotSigned covers all reasons: the protocol does not distinguish them.
var errNotSigned = errors.New("your ssh-agent did not sign: it is locked, lost the key, or you declined (check \"ssh-add -l\" outside the sandbox)")

func readSignature(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, fmt.Errorf("reading the signature: %w", err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 || n > maxAgentMessage {
		return nil, fmt.Errorf("invalid ssh-agent response of %d bytes", n)
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, fmt.Errorf("reading the signature: %w", err)
	}
	if message[0] != agentSigned {
		return nil, errNotSigned
	}
	signature, rest, err := cutString(message[1:])
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes after the signature", len(rest))
	}
	return signature, err
}

// appendStrings appends length-prefixed strings.
func appendStrings(b []byte, parts ...[]byte) []byte {
	for _, part := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return b
}

// cutString splits off the first length-prefixed string.
func cutString(b []byte) (text, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, errors.New("truncated ssh-agent message")
	}
	n := binary.BigEndian.Uint32(b)
	return b[4 : 4+n], b[4+n:], nil
}
