package guest

import (
	"context"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire"
)

const signHash = "sha512"

// Sign replaces ssh-keygen when git signs a commit in a sandbox, and returns the exit
// code. It requests the signature through a socket from docker-ralph, which forwards
// to the user's ssh-agent. Git runs it without a shell, hence the separate program name.
func Sign(args []string, getenv func(string) string, stderr io.Writer) int {
	if err := signWith(args, getenv); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", wire.SignProgram, err)
		for _, text := range hint.Of(err) {
			_, _ = fmt.Fprintln(stderr, "Hint:", text)
		}
		return 1
	}
	return 0
}

func signWith(args []string, getenv func(string) string) error {
	c, err := parseSignCall(args)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(c.key)
	if err != nil {
		return fmt.Errorf("reading the public key: %w", err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return fmt.Errorf("user.signingKey is not a public key: %w", err)
	}
	content, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("reading the data to sign: %w", err)
	}
	socket := getenv(wire.SignSocketEnv)
	if socket == "" {
		return hint.Wrap(errors.New("signing is not enabled: "+wire.SignSocketEnv+" is not set"), "start the loop with --sign")
	}
	signature, err := requestSignature(socket, public, signedData(content))
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
		return c, hint.Wrap(fmt.Errorf("operation %q is not supported", values["-Y"]), "verify signatures outside of the sandbox")
	case values["-n"] != wire.SignNamespace:
		return c, fmt.Errorf("namespace %q is not supported, only git", values["-n"])
	case values["-f"] == "" || len(args) != 1 || args[0] == "" || strings.HasPrefix(args[0], "-"):
		return c, errors.New("want arguments \"-Y sign -n git -f KEYFILE FILE\"")
	}
	return signCall{key: values["-f"], file: args[0]}, nil
}

// signTimeout allows the user to touch a token or answer a prompt.
const signTimeout = 3 * time.Minute

// requestSignature requests a signature through the socket.
func requestSignature(socket string, public ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	ctx, cancel := context.WithTimeout(context.Background(), signTimeout) //nolint:forbidigo // run by git as a program
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, hint.Wrap(fmt.Errorf("connecting to the ssh-agent on the host: %w", err), "the docker ralph command that signs has ended or detached: run it again")
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(signTimeout)); err != nil {
		return nil, fmt.Errorf("requesting a signature: %w", err)
	}
	var flags agent.SignatureFlags
	if public.Type() == ssh.KeyAlgoRSA {
		flags = agent.SignatureFlagRsaSha512 // SSHSIG does not allow SHA-1
	}
	signature, err := agent.NewClient(conn).SignWithFlags(public, data, flags)
	if err != nil { // the protocol does not distinguish the reasons
		return nil, hint.Wrap(fmt.Errorf("ssh-agent did not sign: %w", err), "check with %q outside of the sandbox that it has the key and is not locked", "ssh-add -l")
	}
	return signature, nil
}

// signedData is the data that the key signs, in the SSHSIG format.
func signedData(content []byte) []byte {
	digest := sha512.Sum512(content)
	return append([]byte(wire.SignMagic), ssh.Marshal(struct{ Namespace, Reserved, Hash, Digest string }{
		wire.SignNamespace, "", signHash, string(digest[:]),
	})...)
}

// armor encodes a signature as git stores it in a commit.
func armor(public ssh.PublicKey, signature *ssh.Signature) []byte {
	blob := append([]byte(wire.SignMagic), ssh.Marshal(struct {
		Version                                      uint32
		Public, Namespace, Reserved, Hash, Signature string
	}{1, string(public.Marshal()), wire.SignNamespace, "", signHash, string(ssh.Marshal(signature))})...)
	return pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: blob})
}
