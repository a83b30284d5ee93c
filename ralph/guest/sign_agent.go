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

// maxAgentMessage bounds what is read, in bytes. The longest keys take a few
// thousand.
const maxAgentMessage = 64 << 10

// askAgentTakes is how long a signature may take: the user may have to touch a
// token or answer a question.
const askAgentTakes = 3 * time.Minute

// askAgent has data signed through the socket.
func askAgent(socket string, public, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askAgentTakes) //nolint:forbidigo // git calls, and has no context
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("nothing signs any more (%w): the docker ralph command that did has ended, or you have detached from it", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(askAgentTakes)); err != nil {
		return nil, fmt.Errorf("asking for a signature: %w", err)
	}
	if _, err := conn.Write(signRequest(public, data)); err != nil {
		return nil, fmt.Errorf("asking for a signature: %w", err)
	}
	return signAnswer(conn)
}

// signRequest is the message that asks for a signature.
func signRequest(public, data []byte) []byte {
	var flags uint32
	if kind, _, err := cutString(public); err == nil && bytes.Equal(kind, []byte("ssh-rsa")) {
		flags = rsaSHA512 // the format of signatures has no SHA-1
	}
	message := appendStrings([]byte{agentSign}, public, data)
	message = binary.BigEndian.AppendUint32(message, flags)
	return appendStrings(nil, message)
}

// errRefused is what the protocol leaves of all reasons.
var errRefused = errors.New("your ssh-agent did not sign: it is locked, has lost the key, or the answer was no. Look with \"ssh-add -l\" outside of the sandbox")

// signAnswer reads a signature.
func signAnswer(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, fmt.Errorf("waiting for a signature: %w", err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 || n > maxAgentMessage {
		return nil, fmt.Errorf("the answer has %d bytes, which is none of ours", n)
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, fmt.Errorf("waiting for a signature: %w", err)
	}
	if message[0] != agentSigned {
		return nil, errRefused
	}
	signature, rest, err := cutString(message[1:])
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the signature", len(rest))
	}
	return signature, err
}

// appendStrings adds strings as the protocol has them, with their length.
func appendStrings(b []byte, parts ...[]byte) []byte {
	for _, part := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return b
}

// cutString takes a string off the front.
func cutString(b []byte) (text, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, errors.New("a message of ssh-agent ends early")
	}
	n := binary.BigEndian.Uint32(b)
	return b[4 : 4+n], b[4+n:], nil
}
