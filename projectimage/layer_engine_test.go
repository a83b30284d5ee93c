package projectimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

// countedEngine writes down every call of the Engine API.
type countedEngine struct {
	*testEngine
	mu    sync.Mutex
	calls []string
}

func (c *countedEngine) count(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

func (c *countedEngine) ImageInspect(ctx context.Context, ref string, options ...client.ImageInspectOption) (client.ImageInspectResult, error) {
	c.count("inspect " + ref)
	return c.testEngine.ImageInspect(ctx, ref, options...)
}

func (c *countedEngine) ImagePull(ctx context.Context, ref string, options client.ImagePullOptions) (client.ImagePullResponse, error) {
	c.count("pull " + ref)
	return c.testEngine.ImagePull(ctx, ref, options)
}

func (c *countedEngine) DialHijack(ctx context.Context, url, proto string, meta map[string][]string) (net.Conn, error) {
	c.count("hijack " + url)
	return c.testEngine.DialHijack(ctx, url, proto, meta)
}

func (c *countedEngine) Dialer() func(context.Context) (net.Conn, error) {
	c.count("dial")
	return c.testEngine.Dialer()
}

// workshop builds the layers of one project for the shell agent on one engine,
// as dispatches from one machine do.
type workshop struct {
	*Builder
	engine *testEngine
	out    *output.Buffer
	root   string
	base   string
	hints  []string // of the last failure
}

func (e *testEngine) workshop(t *testing.T, files map[string]string) *workshop {
	t.Helper()
	b, out := e.builder(t)
	w := &workshop{Builder: b, engine: e, out: out, root: newProject(t, files), base: e.base}
	t.Cleanup(func() { w.tidy(t) })
	return w
}

// tidy removes what was built, also what has lost its name since.
func (w *workshop) tidy(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	for _, base := range []string{refOf(t, Request{Agent: "shell", Base: w.base}), w.base} {
		found, err := w.engine.ImageList(ctx, client.ImageListOptions{All: true, Filters: make(client.Filters).Add("label", labelBase+"="+base)})
		assert.Check(t, err)
		for _, image := range found.Items {
			_, _ = w.engine.ImageRemove(ctx, image.ID, client.ImageRemoveOptions{Force: true})
		}
	}
}

// request is what a dispatch asks for now.
func (w *workshop) request(t *testing.T) Request {
	t.Helper()
	req, err := w.find(t)
	assert.NilError(t, err)
	return req
}

func (w *workshop) find(t *testing.T) (Request, error) {
	t.Helper()
	p, found, err := FindProject(t.Context(), w.root)
	req := Request{Agent: "shell", Base: w.base}
	if found {
		p.Approved = true
		req.Project = &p
	}
	return req, err
}

// dispatch ensures the image as a dispatch does.
func (w *workshop) dispatch(t *testing.T, change ...func(*Request)) (Image, error) {
	t.Helper()
	req := w.request(t)
	for _, f := range change {
		f(&req)
	}
	return w.Ensure(t.Context(), req)
}

func (w *workshop) mustDispatch(t *testing.T, change ...func(*Request)) Image {
	t.Helper()
	image, err := w.dispatch(t, change...)
	assert.NilError(t, err, "%s", w.out)
	return image
}

// failure dispatches what must not build.
func (w *workshop) failure(t *testing.T) *BuildError {
	t.Helper()
	_, err := w.dispatch(t)
	failure, ok := errors.AsType[*BuildError](err)
	assert.Assert(t, ok, "%v", err)
	t.Log(failure)
	w.hints = hint.Of(err)
	return failure
}

// seedTag is the tag that the specification gives a layer: eight digits of the
// SHA-256 over the agent's tag and the Dockerfile.
func (w *workshop) seedTag(t *testing.T, dockerfile string) string {
	t.Helper()
	agent := refOf(t, Request{Agent: "shell", Base: w.base})
	sum := sha256.Sum256([]byte(agent + dockerfile))
	return "agent-loop-sandbox-shell-shop:v" + hex.EncodeToString(sum[:4])
}

// installs is the generated Dockerfile, written down by hand.
func installs(packages string) string {
	return "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\n" +
		"RUN apt-get update && apt-get install -y --no-install-recommends \\\n" + packages + " \\\n&& rm -rf /var/lib/apt/lists/*\nUSER agent\n"
}

// TestEngineDependencies needs a Debian mirror that containers can reach.
func TestEngineDependencies(t *testing.T) {
	if testing.Short() {
		t.Skip("installs packages")
	}
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.workshop(t, map[string]string{dependenciesFile: "\ufeff# What we need.\r\n\r\n\ttree # to look around\r\ntree\r\n  figlet"})
		built := w.mustDispatch(t)
		assert.Assert(t, built.Built)
		assert.Equal(t, built.Ref, w.seedTag(t, installs("tree figlet")))
		assert.Equal(t, e.run(t, built.Ref, "tree --version | cut -c1-4; command -v figlet; id -un; ls /var/lib/apt/lists"), "tree\n/usr/bin/figlet\nagent")

		counted := &countedEngine{testEngine: e}
		w.Engine = counted
		again := w.mustDispatch(t)
		assert.DeepEqual(t, again, Image{Ref: built.Ref, ID: built.ID})
		assert.Assert(t, cmp.Len(counted.calls, 2))
		assert.Check(t, cmp.Contains(counted.calls, "inspect "+built.Ref))

		// Words for readers change nothing, nor does asking 5,000 times in 10,000 lines.
		var long strings.Builder
		for i := range 5000 {
			_, _ = fmt.Fprintf(&long, "# line %d\n%s\n", i, []string{"tree", "figlet # banners"}[i%2])
		}
		writeFile(t, projectPath(w.root, dependenciesFile), long.String())
		assert.DeepEqual(t, w.mustDispatch(t), again)
	})
}

// TestEngineUnknownPackages needs a Debian mirror that containers can reach.
func TestEngineUnknownPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads package lists")
	}
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.workshop(t, map[string]string{dependenciesFile: "# tools\ntree\nno-such-1\ntre.+ # a pattern that matches tree\nfiglet=99.9-1\ntree:s390x\n"})
		failure := w.failure(t)
		for _, words := range []string{
			"E: Unable to locate package no-such-1",
			"E: Couldn't find any package by glob 'tre.'",
			"E: Version '99.9-1' for 'figlet' was not found",
			"E: Unable to locate package tree:s390x",
		} {
			assert.Assert(t, cmp.Contains(failure.Log, words))
			assert.ErrorContains(t, failure, words)
		}
		file := projectPath(w.root, dependenciesFile)
		assert.Assert(t, strings.HasSuffix(failure.Error(), "\n"+file+":3: no package no-such-1\n"+file+":4: no package tre.+\n"+
			file+":5: no package figlet=99.9-1\n"+file+":6: no package tree:s390x"), failure.Error())
		if e.sendsSource() {
			assert.ErrorContains(t, failure, ">>> tree no-such-1 tre.+ figlet=99.9-1 tree:s390x")
		}

		// Nothing is left of it.
		_, found, err := w.lookup(t.Context(), failure.Tag)
		assert.NilError(t, err)
		assert.Assert(t, !found)
	})
}

func TestEngineDockerfileWins(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		const dockerfile = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\nRUN touch /from-dockerfile\nUSER agent\n"
		w := e.workshop(t, map[string]string{sandboxDockerfile: dockerfile, dependenciesFile: "no-such-package-here\n"})
		built := w.mustDispatch(t)
		assert.Assert(t, cmp.Contains(w.out.String(), projectPath(w.root, dependenciesFile)+" is ignored: there is a Dockerfile.sandbox\n"))
		assert.Equal(t, e.run(t, built.Ref, "ls /from-dockerfile; id -un"), "/from-dockerfile\nagent")
	})
}

func TestEngineCopiedFiles(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		const dockerfile = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY . /srv/\n"
		w := e.workshop(t, map[string]string{
			sandboxDockerfile: dockerfile, ".dockerignore": "*.log\nDockerfile.*\n.dockerignore\n", "tools/hammer": "hit", "noise.log": "1",
		})
		outside := t.TempDir() + "/secret"
		writeFile(t, outside, "password")
		for link, target := range map[string]string{"absolute": outside, "up": "../../secret", "passwd": "/etc/passwd", "inside": "tools/hammer"} {
			assert.NilError(t, os.Symlink(target, projectPath(w.root, link)))
		}
		writeFile(t, w.root+"/../secret", "password")
		first := w.mustDispatch(t)
		assert.Assert(t, first.Ref != w.seedTag(t, dockerfile))
		assert.Equal(t, e.run(t, first.Ref, "cd /srv; find . -type f; readlink absolute up; cat inside; head -c 4 passwd"),
			"./tools/hammer\n"+outside+"\n../../secret\nhitroot")

		writeFile(t, projectPath(w.root, "noise.log"), "2")
		counted := &countedEngine{testEngine: e}
		w.Engine = counted
		again := w.mustDispatch(t)
		assert.DeepEqual(t, again, Image{Ref: first.Ref, ID: first.ID})
		assert.Assert(t, cmp.Len(counted.calls, 2))
		assert.Check(t, cmp.Contains(counted.calls, "inspect "+first.Ref))

		writeFile(t, projectPath(w.root, "tools/hammer"), "hit harder")
		second := w.mustDispatch(t)
		assert.Assert(t, second.Built)
		assert.Assert(t, second.Ref != first.Ref)
		assert.Equal(t, e.run(t, second.Ref, "cat /srv/tools/hammer"), "hit harder")
	})
}
