package projectimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/identity"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/icmd"

	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

// custom makes a workshop whose Dockerfile.sandbox has steps on the agent's image.
func (e *testEngine) custom(t *testing.T, steps string, files map[string]string) *workshop {
	t.Helper()
	all := map[string]string{sandboxDockerfile: head + "USER root\n" + steps + "\nUSER agent\n"}
	maps.Copy(all, files)
	return e.workshop(t, all)
}

func TestEngineMounts(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.custom(t, `RUN --mount=type=cache,target=/var/cache/tools touch /var/cache/tools/kept
RUN --mount=type=cache,target=/var/cache/tools ls /var/cache/tools >/seen
RUN --mount=type=bind,source=tools,target=/mnt cp /mnt/hammer /hammer
RUN --mount=target=/mnt ls /mnt >/context
RUN --mount=type=tmpfs,target=/scratch touch /scratch/gone`,
			map[string]string{"tools/hammer": "hit"})
		built := w.mustDispatch(t)
		assert.Equal(t, e.run(t, built.Ref, "cat /seen /hammer; echo; cat /context; find /var/cache/tools /scratch -type f 2>/dev/null || true"),
			"kept\nhit\nDockerfile.sandbox\ntools")

		writeFile(t, projectPath(w.root, "tools/hammer"), "hit harder")
		assert.Equal(t, e.run(t, w.mustDispatch(t).Ref, "cat /hammer"), "hit harder")
	})
}

func TestEngineSecret(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		// Whether a step is cached does not depend on its secrets.
		needs := "RUN --mount=type=secret,id=token,required=true,uid=1000 sha256sum </run/secrets/token >/seen; echo " + identity.NewID()
		w := e.custom(t, needs, nil)
		failure := w.failure(t) // without the secret
		assert.DeepEqual(t, w.hints, []string{`run "docker ralph image build --secret id=token,src=FILE" first`})
		if e.sendsSource() {
			assert.Assert(t, cmp.Contains(failure.Source, ">>> "+needs))
		}

		secret := identity.NewID()
		file := filepath.Join(t.TempDir(), "token")
		writeFile(t, file, secret)
		w.Secrets = []Secret{{ID: "token", FilePath: file}}
		built := w.mustDispatch(t)
		sum := sha256.Sum256([]byte(secret))
		assert.Equal(t, e.run(t, built.Ref, "cut -c1-64 /seen; find /run/secrets -type f 2>/dev/null || true"), hex.EncodeToString(sum[:]))

		history, err := e.ImageHistory(t.Context(), built.Ref)
		assert.NilError(t, err)
		described, err := e.Client.ImageInspect(t.Context(), built.Ref)
		assert.NilError(t, err)
		all, err := json.Marshal([]any{history, described})
		assert.NilError(t, err)
		assert.Assert(t, !strings.Contains(string(all)+w.out.String(), secret))
	})
}

func TestEngineStages(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.workshop(t, map[string]string{sandboxDockerfile: `ARG BASE_IMAGE
FROM ${BASE_IMAGE} AS tools
WORKDIR /home/agent
RUN echo made >tool
FROM ${BASE_IMAGE}
COPY --from=tools --chown=root /home/agent/tool /opt/tool
`})
		w.moveTo(t, `C:\My Shöp`)
		built := w.mustDispatch(t)
		assert.Assert(t, cmp.Regexp(`^agent-loop-sandbox-shell-c-my-sh-p-[0-9a-f]{8}:v[0-9a-f]{8}$`, built.Ref))
		assert.Equal(t, e.run(t, built.Ref, "cat /opt/tool; stat -c %U /opt/tool; id -un; ls /home/agent"), "made\nroot\nagent")
	})
}

func TestEngineHeredoc(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.custom(t, "RUN <<EOF\nset -e\necho one >/one\nEOF\nCOPY <<EOF /two\nfirst\nEOF", nil)
		if e.name == "debian" { // its BuildKit is older than heredocs
			failure := w.failure(t)
			assert.ErrorContains(t, failure, "line 5: ")
			assert.DeepEqual(t, w.hints, []string{`the engine's BuildKit is too old for this Dockerfile: start it with the line "# syntax=docker/dockerfile:1"`})
			return
		}
		assert.Equal(t, e.run(t, w.mustDispatch(t).Ref, "cat /one /two"), "one\nfirst")
	})
}

// TestEngineNoEntitlements makes sure that no step of a repository runs with
// more than others.
func TestEngineNoEntitlements(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b, _ := e.builder(t)
		for flag, name := range map[string]string{"--network=host": "network.host", "--security=insecure": "security.insecure"} {
			err := b.build(t.Context(), e.spec(t, "RUN "+flag+" true"), false)
			if e.name == "debian" { // its BuildKit is older than these flags
				name = "Unknown flag: "
			}
			assert.ErrorContains(t, err, name)
		}
	})
}

func TestEngineFailingLayer(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.custom(t, "# The next one fails.\nRUN echo one; \\\n    echo two; \\\n    exit 3", nil)
		failure := w.failure(t)
		assert.Equal(t, failure.Base, refOf(t, Request{Agent: "shell", Base: e.base}))
		assert.DeepEqual(t, failure.Log, []string{"one", "two"})
		assert.ErrorContains(t, failure, "exit code: 3\n")
		if e.sendsSource() {
			assert.Equal(t, failure.Source, `Dockerfile.sandbox:5
--------------------
   4 |     # The next one fails.
   5 | >>> RUN echo one; \
   6 | >>>     echo two; \
   7 | >>>     exit 3
   8 |     USER agent
--------------------`)
		}
	})
}

// A repository's file, and what its steps print, command no terminal.
func TestEngineNothingCommandsTheTerminal(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.custom(t, "RUN true '"+identity.NewID()+" \x1b]52;c;eA==\a'; printf 'lo\\033]0;title\\007g\\n'", nil)
		w.mustDispatch(t)
		w.out.WaitFor(t, " log\n")
		assert.Check(t, !strings.ContainsAny(w.out.String(), "\x1b\a"), "%q", w.out)
		err := e.custom(t, "\x1b]0;title\aRUNN true", nil).failure(t)
		assert.Check(t, !strings.ContainsAny(err.Error(), "\x1b\a"), "%q", err)
	})
}

func TestEngineBaseWithoutApt(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.workshop(t, map[string]string{dependenciesFile: "tree\n"})
		w.base = e.derive(t, "RUN rm /usr/bin/apt-get")
		_ = w.failure(t)
		assert.DeepEqual(t, w.hints, []string{projectPath(w.root, dependenciesFile) +
			" needs a base image with apt-get: choose one with --base IMAGE, or install the packages in " + projectPath(w.root, sandboxDockerfile)})
	})
}

// layersOf returns the images that this test's project has, also nameless ones.
func (w *workshop) layersOf(t *testing.T, name string) []string {
	t.Helper()
	found, err := w.engine.ImageList(t.Context(), client.ImageListOptions{
		All: true, Filters: make(client.Filters).Add("label", labelProject+"="+name),
	})
	assert.NilError(t, err)
	var ids []string
	for _, image := range found.Items {
		ids = append(ids, image.ID)
	}
	return ids
}

// moveTo gives the project another name.
func (w *workshop) moveTo(t *testing.T, name string) {
	t.Helper()
	to := filepath.Join(filepath.Dir(w.root), name)
	assert.NilError(t, os.Rename(w.root, to))
	w.root = to
}

func TestEngineCancelledLayer(t *testing.T) {
	onEachAlone(t, func(t *testing.T, e *testEngine) {
		w := e.custom(t, "RUN echo it has begun; sleep 600", nil)
		name := fmt.Sprintf("cancelled-%d", time.Now().UnixNano())
		w.moveTo(t, name)
		req := w.request(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { _, err := w.Ensure(ctx, req); done <- err }()
		w.out.WaitFor(t, " it has begun\n")
		cancel()
		select {
		case err := <-done:
			assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
			assert.ErrorContains(t, err, "building image")
		case <-time.After(2 * time.Second):
			t.Fatal("the build does not end within 2 s")
		}
		assert.Assert(t, cmp.Len(w.layersOf(t, name), 0))
	})
}

func TestEngineTwoProcessesBuildALayerOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		self, err := os.Executable()
		assert.NilError(t, err)
		w := e.custom(t, "RUN sleep 1; echo "+identity.NewID(), nil)
		var results [2]*icmd.Result
		var group errgroup.Group
		for i := range results {
			group.Go(func() error {
				results[i] = icmd.RunCmd(icmd.Command(self), icmd.WithEnv(append(os.Environ(), roleVariable+"=ensure",
					"DOCKER_HOST="+e.host, "RALPH_TEST_BASE="+e.base, "RALPH_TEST_LOCKS="+w.LockDir, "RALPH_TEST_PROJECT="+w.root)...))
				return results[i].Error
			})
		}
		assert.NilError(t, group.Wait())
		said := []string{results[0].Stdout(), results[1].Stdout()}
		waited := results[0].Stderr() + results[1].Stderr()
		assert.Assert(t, cmp.Contains(said, "true\n"))
		assert.Assert(t, cmp.Contains(said, "false\n"))
		assert.Equal(t, strings.Count(waited, "waiting for another docker ralph to build image agent-loop-sandbox-shell-shop:v"), 1, waited)
	})
}

func TestEngineLayerProgress(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.workshop(t, map[string]string{sandboxDockerfile: head + "RUN echo said; echo " + identity.NewID() + "\n", dependenciesFile: "tree\n"})
		w.mustDispatch(t)
		assert.Assert(t, cmp.Contains(w.out.String(), "is ignored: "))
		assert.Assert(t, cmp.Regexp(`(?m)^#\d+ \d+\.\d+ said$`, w.out.String()))

		show := func(mode Mode) string {
			out := &output.Buffer{}
			w.Progress = Progress{Mode: mode, Out: out}
			writeFile(t, projectPath(w.root, sandboxDockerfile), head+"RUN echo said; echo "+string(mode)+identity.NewID()+"\n")
			assert.Assert(t, w.mustDispatch(t).Built)
			return out.String()
		}
		assert.Equal(t, show(ModeQuiet), "")
		var names []string
		for line := range strings.Lines(show(ModeRawJSON)) {
			var status struct{ Vertexes []struct{ Name string } }
			assert.NilError(t, json.Unmarshal([]byte(line), &status), "%q", line)
			for _, vertex := range status.Vertexes {
				names = append(names, vertex.Name)
			}
		}
		assert.Assert(t, cmp.Contains(strings.Join(names, "\n"), "[2/2] RUN echo said; echo rawjson"))
	})
}
