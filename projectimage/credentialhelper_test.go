//go:build unix

package projectimage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	"github.com/moby/buildkit/session/auth/authprovider"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

// helperOf installs a credential helper that runs a script, and returns the config that uses it.
func helperOf(t *testing.T, script string) *helpers {
	t.Helper()
	bin := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(bin, "docker-credential-test"), []byte("#!/bin/sh\n"+script), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	config := configfile.New("")
	config.CredentialHelpers = map[string]string{"own.example": "test", authprovider.DockerHubConfigfileKey: "test"}
	config.AuthConfigs = map[string]types.AuthConfig{"plain.example": {Username: "from", Password: "file"}}
	return &helpers{config: config, plain: authprovider.LoadAuthConfig(config), limit: helperLimit, known: map[string]helperAnswer{}}
}

func TestCredentialHelper(t *testing.T) {
	h := helperOf(t, `read server
echo "$1 $server" >>"${0%/*}/asked"
case $server in
own.example) echo '{"ServerURL":"own.example","Username":"user","Secret":"secret"}' ;;
*) echo '{"ServerURL":"hub","Username":"<token>","Secret":"token"}' ;;
esac
`)
	for range 2 { // asked once
		found, err := h.load(t.Context(), "own.example", nil, nil)
		assert.NilError(t, err)
		assert.Equal(t, found, types.AuthConfig{ServerAddress: "own.example", Username: "user", Password: "secret"})
	}
	found, err := h.load(t.Context(), authprovider.DockerHubRegistryHost, nil, nil)
	assert.NilError(t, err)
	assert.Equal(t, found.IdentityToken, "token")
	found, err = h.load(t.Context(), "plain.example", nil, nil)
	assert.NilError(t, err)
	assert.Equal(t, found.Password, "file")
	bin, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	asked, err := os.ReadFile(filepath.Join(bin, "asked"))
	assert.NilError(t, err)
	assert.Equal(t, string(asked), "get own.example\nget "+authprovider.DockerHubConfigfileKey+"\n")

	_, err = h.load(t.Context(), "own.example", nil, func(time.Time, string) bool { return true })
	assert.NilError(t, err)
	t.Setenv(configfile.DockerEnvConfigKey, `{"auths":{"own.example":{"auth":"ZW52OnBhc3M="}}}`)
	found, err = h.load(t.Context(), "own.example", nil, nil)
	assert.NilError(t, err)
	assert.Equal(t, found.Username+found.Password, "envpass")
}

func TestCredentialHelperErrors(t *testing.T) {
	h := helperOf(t, "echo credentials not found in native keychain; exit 1\n")
	found, err := h.load(t.Context(), "own.example", nil, nil)
	assert.NilError(t, err)
	assert.Equal(t, found, types.AuthConfig{})
	h = helperOf(t, "echo locked; exit 1\n")
	_, err = h.load(t.Context(), "own.example", nil, nil)
	assert.ErrorContains(t, err, "docker-credential-test: ")
	assert.ErrorContains(t, err, "locked")
}

// A helper that hangs is killed with what it has started, and the error names it.
func TestHangingCredentialHelperIsKilled(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	h := helperOf(t, "sleep 300 & echo $$ $! >'"+pids+".new' && mv '"+pids+".new' '"+pids+"'; wait\n")
	alive := func() (alive []string) {
		content, err := os.ReadFile(pids)
		assert.NilError(t, err)
		for _, pid := range strings.Fields(string(content)) {
			if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !bytes.Contains(stat, []byte(") Z ")) {
				alive = append(alive, pid)
			}
		}
		return alive
	}
	gone := func(poll.LogT) poll.Result {
		if left := alive(); len(left) > 0 {
			return poll.Continue("%v", left)
		}
		return poll.Success()
	}

	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := h.load(ctx, "own.example", nil, nil)
		failed <- err
	}()
	poll.WaitOn(t, poll.FileExists(pids), poll.WithTimeout(time.Minute))
	assert.Equal(t, len(alive()), 2)
	cancel()
	assert.ErrorIs(t, <-failed, context.Canceled)
	poll.WaitOn(t, gone, poll.WithTimeout(time.Minute))

	h.limit = time.Second
	b := &Builder{Auth: h.load, ConfigFile: "/config.json"}
	_, problem, err := b.credentials(t.Context(), "own.example", nil, nil)
	assert.NilError(t, err)
	assert.Error(t, problem, fmt.Sprintf("reading the credentials for registry own.example: docker-credential-test did not answer within %s and was killed", h.limit))
	poll.WaitOn(t, gone, poll.WithTimeout(time.Minute))
}
