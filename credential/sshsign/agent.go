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

	"github.com/docker-ralph/docker-ralph/hint"
)

// Timeouts of the user's ssh-agent. To sign, it may prompt the user, or wait for a token.
const (
	listTimeout = 10 * time.Second
	signTimeout = 2 * time.Minute
)

// Agent is the user's ssh-agent, by the path of its socket.
type Agent string

// Check returns an error unless the agent has the key.
func (a Agent) Check(ctx context.Context, key Key) error {
	if a == "" {
		return hint.Wrap(errors.New("no ssh-agent to sign commits (SSH_AUTH_SOCK is not set)"), "start one with \"eval $(ssh-agent)\", and add your key with \"ssh-add\"")
	}
	client, leave, err := a.dial(ctx, listTimeout)
	if err != nil {
		return hint.Wrap(fmt.Errorf("connecting to the ssh-agent: %w", err), "start one with \"eval $(ssh-agent)\", and add your key with \"ssh-add\"")
	}
	defer leave()
	keys, err := client.List()
	if err != nil {
		return fmt.Errorf("listing the keys of the ssh-agent: %w", err)
	}
	for _, k := range keys {
		if bytes.Equal(k.Blob, key.public.Marshal()) {
			return nil
		}
	}
	return hint.Wrap(fmt.Errorf("the ssh-agent does not have the key %s, user.signingKey", ssh.FingerprintSHA256(key.public)), "add it with \"ssh-add\", or unlock the agent with \"ssh-add -X\"")
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

// sign signs data and returns the signature in the protocol's format.
func (a Agent) sign(ctx context.Context, key Key, data []byte, flags uint32) ([]byte, error) {
	client, leave, err := a.dial(ctx, signTimeout)
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
