package projectimage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	"github.com/docker/docker-credential-helpers/client"
	"github.com/docker/docker-credential-helpers/credentials"
	"github.com/moby/buildkit/session/auth/authprovider"
)

const (
	// helperLimit is how long a credential helper may take.
	helperLimit = 30 * time.Second
	// helperDelay is how long its output may stay open after it has ended, or was killed.
	helperDelay = 2 * time.Second
	// tokenUser is the name of a user whose secret is an identity token.
	tokenUser = "<token>"
)

// ReadCredentials returns the credentials of the Docker CLI's config file. Unlike the CLI, it
// kills a credential helper that does not answer, with all that it has started.
func ReadCredentials(config *configfile.ConfigFile) Credentials {
	h := &helpers{config: config, plain: authprovider.LoadAuthConfig(config), limit: helperLimit, known: map[string]helperAnswer{}}
	return h.load
}

type helpers struct {
	config *configfile.ConfigFile
	plain  Credentials // for registries without a helper
	limit  time.Duration

	mu    sync.Mutex // one helper at a time: it may ask the user
	known map[string]helperAnswer
}

type helperAnswer struct {
	found types.AuthConfig
	at    time.Time
}

func (h *helpers) load(ctx context.Context, host string, scopes []string, expired authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
	key := host
	if host == authprovider.DockerHubRegistryHost {
		key = authprovider.DockerHubConfigfileKey
	}
	helper, ok := h.config.CredentialHelpers[key]
	if !ok {
		helper = h.config.CredentialsStore
	}
	if helper == "" {
		return h.plain(ctx, host, scopes, expired)
	}
	if os.Getenv(configfile.DockerEnvConfigKey) != "" { // comes before the helper
		if found, err := configfile.New("").GetAuthConfig(key); err == nil && (found.Username != "" || found.Auth != "" || found.IdentityToken != "" || found.RegistryToken != "") {
			return found, nil
		}
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.known[host]; ok && (expired == nil || !expired(known.at, host)) {
		return known.found, nil
	}
	found, err := h.ask(ctx, "docker-credential-"+helper, key)
	if err != nil {
		return types.AuthConfig{}, err
	}
	h.known[host] = helperAnswer{found, time.Now()}
	return found, nil
}

// ask runs a helper.
func (h *helpers) ask(ctx context.Context, helper, server string) (types.AuthConfig, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.limit, fmt.Errorf("%s did not answer within %s and was killed", helper, h.limit))
	defer cancel()
	found, err := client.Get(func(args ...string) client.Program {
		cmd := exec.CommandContext(ctx, helper, args...)
		cmd.Stderr, cmd.WaitDelay = os.Stderr, helperDelay
		ownGroup(cmd)
		return helperProgram{cmd}
	}, server)
	switch {
	case err == nil:
	case credentials.IsErrCredentialsNotFound(err):
		return types.AuthConfig{}, nil
	case ctx.Err() != nil:
		return types.AuthConfig{}, context.Cause(ctx)
	default:
		return types.AuthConfig{}, fmt.Errorf("%s: %w", helper, err)
	}
	if found.Username == tokenUser {
		return types.AuthConfig{ServerAddress: server, IdentityToken: found.Secret}, nil
	}
	return types.AuthConfig{ServerAddress: server, Username: found.Username, Password: found.Secret}, nil
}

// helperProgram implements [client.Program].
type helperProgram struct{ cmd *exec.Cmd }

func (p helperProgram) Input(in io.Reader) { p.cmd.Stdin = in }

// Output runs the helper. A program that the helper leaves behind does not matter.
func (p helperProgram) Output() ([]byte, error) {
	out, err := p.cmd.Output()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return out, err
}
