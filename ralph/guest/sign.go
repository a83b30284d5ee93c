package guest

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"
)

// signHash is the one that is signed, as git asks for it.
const signHash = "sha512"

// Sign stands in for ssh-keygen when git signs a commit in a sandbox, and returns the
// exit code. The key is not there: what is to be signed is sent through a socket to
// docker-ralph, which has the user's ssh-agent sign it. Git calls the program by a name
// of its own, because it calls it without a shell.
func Sign(args []string, getenv func(string) string, stderr io.Writer) int {
	if err := signWith(args, getenv); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", wire.SignProgram, err)
		return 1
	}
	return 0
}

func signWith(args []string, getenv func(string) string) error {
	c, err := parseSignCall(args)
	if err != nil {
		return err
	}
	public, err := readKey(c.key)
	if err != nil {
		return err
	}
	digest, err := digestFile(c.file)
	if err != nil {
		return err
	}
	socket := getenv(wire.SignSocketEnv)
	if socket == "" {
		return errors.New("nothing signs here: " + wire.SignSocketEnv + " is not set. It is for commits in a sandbox of docker ralph --sign")
	}
	signature, err := askAgent(socket, public, signedData(digest))
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.file+".sig", armoured(public, signature), 0o600); err != nil {
		return fmt.Errorf("writing the signature: %w", err)
	}
	return nil
}

// signCall is what git wants to be signed, and with which key.
type signCall struct{ key, file string }

// parseSignCall reads the arguments with which git calls ssh-keygen:
// -Y sign -n git -f KEYFILE [-U] FILE.
func parseSignCall(args []string) (c signCall, err error) {
	values := map[string]string{}
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		name := args[0]
		switch name {
		case "-Y", "-n", "-f":
			values[name], args = args[1], args[2:]
		case "-U": // the key is in an agent, as it always is here
			args = args[1:]
		default:
			return c, fmt.Errorf("unknown option %q: git calls it as \"-Y sign -n git -f KEYFILE FILE\"", name)
		}
	}
	switch {
	case values["-Y"] != "sign":
		return c, fmt.Errorf("it only signs, and cannot do %q: look at signatures outside of the sandbox", values["-Y"])
	case values["-n"] != wire.SignNamespace:
		return c, fmt.Errorf("it signs for git only, not for %q", values["-n"])
	case values["-f"] == "" || len(args) != 1 || args[0] == "" || strings.HasPrefix(args[0], "-"):
		return c, errors.New("git calls it as \"-Y sign -n git -f KEYFILE FILE\"")
	}
	return signCall{key: values["-f"], file: args[0]}, nil
}

// readKey reads a public key in the format of authorized_keys and returns it in
// that of the protocol.
func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxAgentMessage))
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	return parseKey(string(text))
}

func parseKey(text string) ([]byte, error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return nil, errors.New("user.signingKey is no public key")
	}
	public, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return nil, fmt.Errorf("user.signingKey is no public key: %w", err)
	}
	return public, nil
}

func digestFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading what is to be signed: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("reading what is to be signed: %w", err)
	}
	return h.Sum(nil), nil
}

// signedData is what the key signs in place of a message with that digest.
func signedData(digest []byte) []byte {
	return appendStrings([]byte(wire.SignMagic), []byte(wire.SignNamespace), nil, []byte(signHash), digest)
}

// armoured is a signature as git keeps it in a commit.
func armoured(public, signature []byte) []byte {
	const version, width = 1, 70
	blob := appendStrings(append([]byte(wire.SignMagic), 0, 0, 0, version), public, []byte(wire.SignNamespace), nil, []byte(signHash), signature)
	text := base64.StdEncoding.EncodeToString(blob)
	var b bytes.Buffer
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for len(text) > 0 {
		n := min(width, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString("-----END SSH SIGNATURE-----\n")
	return b.Bytes()
}
