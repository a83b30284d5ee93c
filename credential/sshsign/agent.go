package sshsign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// How long the user's ssh-agent may take to list its keys, and to sign: it may
// ask the user, or wait for a token to be touched.
const (
	listTakes = 10 * time.Second
	signTakes = 2 * time.Minute
)

// Agent is the user's ssh-agent, by the path of its socket.
type Agent string

// Check returns an error that says what to do unless the agent has the key.
func (a Agent) Check(ctx context.Context, key Key) error {
	if a == "" {
		return errors.New("there is no ssh-agent to sign commits (SSH_AUTH_SOCK is not set): start one with \"eval $(ssh-agent)\", and add your key with \"ssh-add\"")
	}
	client, leave, err := a.dial(ctx, listTakes)
	if err != nil {
		return fmt.Errorf("reaching the ssh-agent that is to sign commits: %w: start one with \"eval $(ssh-agent)\", and add your key with \"ssh-add\"", err)
	}
	defer leave()
	keys, err := client.List()
	if err != nil {
		return fmt.Errorf("asking the ssh-agent for its keys: %w", err)
	}
	for _, k := range keys {
		if bytes.Equal(k.Blob, key.public.Marshal()) {
			return nil
		}
	}
	return fmt.Errorf("the ssh-agent does not have the key %s, which git signs with (user.signingKey): add it with \"ssh-add\", or unlock the agent with \"ssh-add -X\"", ssh.FingerprintSHA256(key.public))
}

func (a Agent) dial(ctx context.Context, limit time.Duration) (client agent.ExtendedAgent, leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", string(a))
	if err != nil {
		cancel()
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return agent.NewClient(conn), func() {
		stop()
		cancel()
		_ = conn.Close()
	}, nil
}

// sign has data signed and returns the signature in the protocol's format.
func (a Agent) sign(ctx context.Context, key Key, data []byte, flags uint32) ([]byte, error) {
	client, leave, err := a.dial(ctx, signTakes)
	if err != nil {
		return nil, err
	}
	defer leave()
	signature, err := client.SignWithFlags(key.public, data, agent.SignatureFlags(flags))
	if err != nil {
		return nil, err
	}
	return ssh.Marshal(signature), nil
}
