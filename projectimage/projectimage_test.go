package projectimage

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli/config/types"
	"github.com/moby/buildkit/session/auth/authprovider"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

func refOf(t *testing.T, req Request) string {
	t.Helper()
	ref, err := Ref(req)
	assert.NilError(t, err)
	return ref
}

func TestEnsureExistingCostsOneInspect(t *testing.T) {
	for _, agent := range Agents() {
		t.Run(agent, func(t *testing.T) {
			ref := refOf(t, Request{Agent: agent})
			b, engine, out := newFake(t, map[string]string{ref: "sha256:1"})
			engine.labels = specOfTest(t, Request{Agent: agent}).labels
			got, err := b.Ensure(t.Context(), Request{Agent: agent})
			assert.NilError(t, err)
			assert.Equal(t, got, Image{Ref: ref, ID: "sha256:1"})
			assert.DeepEqual(t, engine.calls, []string{"inspect " + ref})
			assert.Equal(t, out.String(), "")
			locks, err := os.ReadDir(b.LockDir)
			assert.NilError(t, err)
			assert.Assert(t, cmp.Len(locks, 0), "an existing image needs no lock")
		})
	}
}

func specOfTest(t *testing.T, req Request) buildSpec {
	t.Helper()
	spec, err := specOf(req)
	assert.NilError(t, err)
	if req.Project != nil {
		return projectSpec(spec, req)
	}
	return spec
}

// A tag has 32 bits of a digest: an image of another repository can have the same one.
func TestImageOfAnotherDigestIsNotUsed(t *testing.T) {
	project := &Project{Root: "/src/shop", File: "/src/shop/.agent-loop/Dockerfile.sandbox", Dockerfile: []byte("x"), Approved: true}
	for name, req := range map[string]Request{
		"agent":   {Agent: "shell"},
		"project": {Agent: "shell", Project: project},
	} {
		for _, digest := range []string{"", strings.Repeat("0", 64)} {
			spec := specOfTest(t, req)
			b, engine, _ := newFake(t, map[string]string{spec.tag: "sha256:hostile", spec.base: "sha256:4", "debian:bookworm-slim": "sha256:5"})
			engine.labels = map[string]string{labelAgent: "shell", labelBaseID: "sha256:4", labelDigest: digest}
			var noBuildKit *NoBuildKitError // the fake has none: the build was tried
			_, err := b.Ensure(t.Context(), req)
			assert.Check(t, errors.As(err, &noBuildKit), "%s: %v", name, err)
		}
	}
}

func TestEnsureGiven(t *testing.T) {
	const layers = `{"status":"Pulling from mine","id":"1"}` + "\n" + `{"status":"Status: Downloaded newer image for mine:1"}` + "\n"
	t.Run("there", func(t *testing.T) {
		b, engine, _ := newFake(t, map[string]string{"mine:1": "sha256:2"})
		got, err := b.Ensure(t.Context(), Request{Agent: "anything", Image: "mine:1", Rebuild: true})
		assert.NilError(t, err)
		assert.Equal(t, got, Image{Ref: "mine:1", ID: "sha256:2"})
		assert.DeepEqual(t, engine.calls, []string{"inspect mine:1", "create sha256:2", "remove box"})

		engine.calls = nil
		_, err = b.Ensure(t.Context(), Request{Image: "mine:1"})
		assert.NilError(t, err)
		assert.DeepEqual(t, engine.calls, []string{"inspect mine:1"})
	})
	t.Run("absent", func(t *testing.T) {
		b, engine, out := newFake(t, map[string]string{})
		engine.pull = func(string, client.ImagePullOptions) (string, error) {
			engine.images["mine:1"] = "sha256:3"
			return layers, nil
		}
		got, err := b.Ensure(t.Context(), Request{Image: "mine:1"})
		assert.NilError(t, err)
		assert.Equal(t, got, Image{Ref: "mine:1", ID: "sha256:3"})
		assert.DeepEqual(t, engine.calls, []string{"inspect mine:1", "pull mine:1", "inspect mine:1", "create sha256:3", "remove box"})
		assert.Assert(t, cmp.Contains(out.String(), "1: Pulling from mine\n"))
	})
	t.Run("absent and refused", func(t *testing.T) {
		b, _, _ := newFake(t, nil)
		_, err := b.Ensure(t.Context(), Request{Image: "mine:1"})
		assert.Error(t, err, `image "mine:1" is not on the engine and cannot be pulled: pull access denied for mine:1: not found`)
		assert.DeepEqual(t, hint.Of(err), []string{"build or load it first, or use another one with --image IMAGE"})
	})
	t.Run("pull breaks in the middle", func(t *testing.T) {
		b, engine, _ := newFake(t, nil)
		engine.pull = func(string, client.ImagePullOptions) (string, error) {
			return layers + `{"errorDetail":{"message":"no space left on device"},"error":"no space left on device"}`, nil
		}
		_, err := b.Ensure(t.Context(), Request{Image: "mine:1"})
		assert.ErrorContains(t, err, `image "mine:1" is not on the engine and cannot be pulled: no space left on device`)
	})
	t.Run("ID", func(t *testing.T) {
		const id = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		b, engine, _ := newFake(t, nil)
		_, err := b.Ensure(t.Context(), Request{Image: id})
		assert.ErrorContains(t, err, `no image with the ID "`+id+`"`)
		assert.DeepEqual(t, engine.calls, []string{"inspect " + id})
	})
	t.Run("not a name", func(t *testing.T) {
		b, _, _ := newFake(t, nil)
		_, err := b.Ensure(t.Context(), Request{Image: "Mine"})
		assert.ErrorContains(t, err, `invalid image name "Mine"`)
	})
}

func TestPullShownAsAsked(t *testing.T) {
	const stream = `{"status":"Pulling"}` + "\n"
	for _, tc := range []struct {
		mode Mode
		want string
	}{
		{ModePlain, "Pulling\n"},
		{ModeAuto, "Pulling\n"},
		{ModeQuiet, ""},
		{ModeRawJSON, stream},
	} {
		t.Run(string(tc.mode), func(t *testing.T) {
			b, engine, out := newFake(t, map[string]string{})
			b.Progress.Mode = tc.mode
			engine.pull = func(string, client.ImagePullOptions) (string, error) { return stream, nil }
			assert.NilError(t, b.pull(t.Context(), "mine", ""))
			assert.Equal(t, out.String(), tc.want)
		})
	}
}

func TestPullCredentials(t *testing.T) {
	for _, tc := range []struct {
		name, ref, host string
	}{
		{"Docker Hub", "mine", authprovider.DockerHubRegistryHost},
		{"another registry", "registry.example:5000/a/b:1", "registry.example:5000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, engine, _ := newFake(t, map[string]string{})
			b.Auth = func(_ context.Context, host string, _ []string, _ authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
				assert.Equal(t, host, tc.host)
				return types.AuthConfig{Username: "me", Password: "pw"}, nil
			}
			engine.pull = func(_ string, options client.ImagePullOptions) (string, error) {
				auth, err := authconfig.Decode(options.RegistryAuth)
				assert.NilError(t, err)
				assert.Equal(t, auth.Username+":"+auth.Password, "me:pw")
				return "", nil
			}
			assert.NilError(t, b.pull(t.Context(), tc.ref, ""))
		})
	}
}

// What "docker pull" can do without a helper for credentials works here, too.
func TestPullWithoutCredentialHelper(t *testing.T) {
	missing := errors.New(`error getting credentials - err: exec: "docker-credential-desktop.exe": executable file not found in $PATH`)
	for _, tc := range []struct {
		name   string
		helper func() (types.AuthConfig, error)
		user   string
		said   []string
	}{
		{"missing", func() (types.AuthConfig, error) { return types.AuthConfig{}, missing }, "", []string{
			"Warning: continuing without credentials: reading the credentials for registry registry-1.docker.io: " + missing.Error() + "\n",
		}},
		{"half an answer", func() (types.AuthConfig, error) { return types.AuthConfig{Username: "me"}, errors.New("not JSON") }, "", []string{"not JSON"}},
		{"slow", func() (types.AuthConfig, error) {
			<-time.After(5 * time.Second)
			return types.AuthConfig{Username: "me"}, nil
		}, "me", []string{
			"Waiting for the credentials of registry registry-1.docker.io (credential helper in /home/me/.docker/config.json)\n",
		}},
		{"hanging", func() (types.AuthConfig, error) { // until it is killed
			<-time.After(helperLimit)
			return types.AuthConfig{}, errors.New("it was killed")
		}, "", []string{"Waiting for the credentials", "it was killed"}},
		{"no login", func() (types.AuthConfig, error) { return types.AuthConfig{}, nil }, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, engine, out := newFake(t, map[string]string{})
				b.ConfigFile = "/home/me/.docker/config.json"
				b.Auth = func(context.Context, string, []string, authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
					return tc.helper()
				}
				engine.pull = func(_ string, options client.ImagePullOptions) (string, error) {
					if tc.user == "" {
						assert.Equal(t, options.RegistryAuth, "")
						return "", nil
					}
					auth, err := authconfig.Decode(options.RegistryAuth)
					assert.NilError(t, err)
					assert.Equal(t, auth.Username, tc.user)
					return "", nil
				}
				assert.NilError(t, b.pull(t.Context(), "mine", ""))
				for _, want := range tc.said {
					assert.Assert(t, cmp.Contains(out.String(), want))
				}
				assert.Equal(t, out.String() == "", len(tc.said) == 0)
				<-time.After(2 * time.Hour) // until the helper has ended
			})
		})
	}
	t.Run("needed", func(t *testing.T) {
		b, _, _ := newFake(t, nil)
		b.ConfigFile = "/home/me/.docker/config.json"
		b.Auth = func(context.Context, string, []string, authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
			return types.AuthConfig{}, missing
		}
		_, err := b.Ensure(t.Context(), Request{Image: "mine"})
		assert.ErrorContains(t, err, "cannot be pulled: pull access denied")
		assert.Assert(t, cmp.Contains(strings.Join(hint.Of(err), "\n"), "credsStore and credHelpers in /home/me/.docker/config.json"))
	})
}

func TestMissingBase(t *testing.T) {
	b, engine, _ := newFake(t, nil)
	_, err := b.Ensure(t.Context(), Request{Agent: "claude"})
	assert.Assert(t, errdefs.IsNotFound(err))
	assert.Error(t, err, `base image "docker/sandbox-templates:claude-code" is not on the engine and cannot be pulled: `+
		"pull access denied for docker/sandbox-templates:claude-code: not found")
	assert.DeepEqual(t, hint.Of(err), []string{"choose another base with --base IMAGE or [image] base in ralph.toml, or use an image unchanged with --image IMAGE"})
	ref := refOf(t, Request{Agent: "claude"})
	assert.DeepEqual(t, engine.calls, []string{
		"inspect " + ref, "inspect " + ref,
		"inspect docker/sandbox-templates:claude-code", "pull docker/sandbox-templates:claude-code",
	})
}

func TestRebuildFallsBackToTheLocalBase(t *testing.T) {
	b, engine, out := newFake(t, map[string]string{"debian:bookworm-slim": "sha256:4"})
	_, err := b.Ensure(t.Context(), Request{Agent: "shell", Rebuild: true})
	var noBuildKit *NoBuildKitError // the fake has none: the build was tried
	assert.Assert(t, errors.As(err, &noBuildKit), "%v", err)
	assert.DeepEqual(t, engine.calls[:2], []string{"inspect debian:bookworm-slim", "pull debian:bookworm-slim"})
	assert.Equal(t, out.String(), "cannot pull base image debian:bookworm-slim, using the local one: "+
		"pull access denied for debian:bookworm-slim: not found\n")
}

func TestEngineThatDoesNotAnswer(t *testing.T) {
	b, engine, _ := newFake(t, nil)
	engine.inspectErr = errors.New("cannot connect")
	for _, req := range []Request{{Agent: "shell"}, {Agent: "shell", Rebuild: true}, {Image: "mine"}} {
		_, err := b.Ensure(t.Context(), req)
		assert.ErrorContains(t, err, "inspecting image")
		assert.ErrorContains(t, err, "cannot connect")
	}
}

func TestEnsureCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, req := range []Request{{Agent: "shell"}, {Agent: "shell", Rebuild: true}, {Image: "mine"}} {
		b, _, _ := newFake(t, nil)
		_, err := b.Ensure(ctx, req)
		assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
	}
}

func TestPullCancelled(t *testing.T) {
	for _, req := range []Request{{Agent: "shell"}, {Image: "mine"}} {
		ctx, cancel := context.WithCancel(t.Context())
		b, engine, _ := newFake(t, nil)
		engine.pull = func(string, client.ImagePullOptions) (string, error) {
			cancel()
			return "", errors.New("connection lost")
		}
		_, err := b.Ensure(ctx, req)
		assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
	}
}
