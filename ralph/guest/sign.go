package guest

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"
)

const signHash = "sha512"

// Sign replaces ssh-keygen when git signs a commit in a sandbox, and returns the exit
// code. It requests the signature through a socket from docker-ralph, which forwards
// to the user's ssh-agent. Git runs it without a shell, hence the separate program name.
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
		return errors.New("signing is not enabled: " + wire.SignSocketEnv + " is not set (start the loop with --sign)")
	}
	signature, err := requestSignature(socket, public, signedData(digest))
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.file+".sig", armor(public, signature), 0o600); err != nil {
		return fmt.Errorf("writing the signature: %w", err)
	}
	return nil
}

type signCall struct{ key, file string }

// parseSignCall parses the arguments with which git calls ssh-keygen:
// -Y sign -n git -f KEYFILE [-U] FILE.
func parseSignCall(args []string) (c signCall, err error) {
	values := map[string]string{}
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		name := args[0]
		switch name {
		case "-Y", "-n", "-f":
			values[name], args = args[1], args[2:]
		case "-U": // the key is in an agent
			args = args[1:]
		default:
			return c, fmt.Errorf("unknown option %q: want \"-Y sign -n git -f KEYFILE FILE\"", name)
		}
	}
	switch {
	case values["-Y"] != "sign":
		return c, fmt.Errorf("operation %q is not supported: verify signatures outside the sandbox", values["-Y"])
	case values["-n"] != wire.SignNamespace:
		return c, fmt.Errorf("namespace %q is not supported, only git", values["-n"])
	case values["-f"] == "" || len(args) != 1 || args[0] == "" || strings.HasPrefix(args[0], "-"):
		return c, errors.New("want arguments \"-Y sign -n git -f KEYFILE FILE\"")
	}
	return signCall{key: values["-f"], file: args[0]}, nil
}

// readKey reads a public key in authorized_keys format and returns it in wire format.
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
		return nil, errors.New("user.signingKey is not a public key")
	}
	public, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return nil, fmt.Errorf("user.signingKey is not a public key: %w", err)
	}
	return public, nil
}

func digestFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the data to sign: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("reading the data to sign: %w", err)
	}
	return h.Sum(nil), nil
}

// signedData is the data that the key signs, in the SSHSIG format.
func signedData(digest []byte) []byte {
	return appendStrings([]byte(wire.SignMagic), []byte(wire.SignNamespace), nil, []byte(signHash), digest)
}

// armor encodes a signature as git stores it in a commit.
func armor(public, signature []byte) []byte {
	const version = 1
	blob := appendStrings(append([]byte(wire.SignMagic), 0, 0, 0, version), public, []byte(wire.SignNamespace), nil, []byte(signHash), signature)
	return pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: blob})
}
