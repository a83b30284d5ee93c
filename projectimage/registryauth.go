package projectimage

import (
	"context"
	"fmt"
	"time"

	"github.com/docker/cli/cli/config/types"
	"github.com/moby/buildkit/session/auth/authprovider"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// helperNotice is how long a credential helper may take until the user is told.
const helperNotice = time.Second

// credentials returns the credentials for a registry. Like "docker pull", it goes on without
// any if the credential helper is missing, fails or hangs, because most images need none.
// problem is the error of the helper.
func (b *Builder) credentials(ctx context.Context, host string, scopes []string, check authprovider.ExpireCachedAuthCheck) (_ types.AuthConfig, problem, _ error) {
	if b.Auth == nil {
		return types.AuthConfig{}, nil, nil
	}
	type answer struct {
		found types.AuthConfig
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		found, err := b.Auth(ctx, host, scopes, check)
		answered <- answer{found, err}
	}()
	notice := time.NewTimer(helperNotice)
	defer notice.Stop()
	for {
		select {
		case a := <-answered:
			if a.err == nil {
				return a.found, nil, nil
			}
			return types.AuthConfig{}, b.reportHelper(host, a.err), nil
		case <-notice.C:
			b.Progress.notice("Waiting for the credentials of registry %s (credential helper in %s)", host, b.configFile())
		case <-ctx.Done():
			return types.AuthConfig{}, nil, ctx.Err()
		}
	}
}

// reportHelper reports an error of a credential helper, and returns it.
func (b *Builder) reportHelper(host string, err error) error {
	err = fmt.Errorf("reading the credentials for registry %s: %w", host, err)
	b.Progress.notice("Warning: continuing without credentials: %s", termsafe.Line(err.Error()))
	return hint.Wrap(err, "install the credential helper, or remove it from credsStore and credHelpers in %s", b.configFile())
}

func (b *Builder) configFile() string {
	if b.ConfigFile == "" {
		return "config.json of Docker"
	}
	return b.ConfigFile
}

// registryAuth returns the encoded credentials for a registry, "" for none, and why there are
// none.
func (b *Builder) registryAuth(ctx context.Context, host string) (encoded string, problem, err error) {
	if host == "docker.io" {
		host = authprovider.DockerHubRegistryHost
	}
	found, problem, err := b.credentials(ctx, host, nil, nil)
	if err != nil || found == (types.AuthConfig{}) {
		return "", problem, err
	}
	encoded, err = authconfig.Encode(registry.AuthConfig(found))
	if err != nil {
		return "", nil, fmt.Errorf("encoding the credentials for registry %s: %w", host, err)
	}
	return encoded, nil, nil
}
