//go:build unix

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// Which engine is used: contexts, remote engines, and engines that refuse requests.

func TestEngineOfTheContextIsUsed(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("DOCKER_HOST", "")
		run(t, w.docker("context", "create", "here", "--docker", "host="+w.engine.Host)).expect(t, 0)
		run(t, w.docker("--context", "here", "ralph", "shell", "--", "true")).expect(t, 0)
		id := w.sandbox(t).ID

		w.setenv("DOCKER_CONTEXT", "here")
		w.ok(t, "shell", "--", "true")
		run(t, w.docker("--host", w.engine.Host, "ralph", "shell", "--", "true")).expect(t, 0)
		assert.Equal(t, w.sandbox(t).ID, id)
		run(t, w.docker("--context", "default", "--log-level", "debug", "ralph", "version")).expect(t, 0)
	})
}

// An engine on another machine cannot mount the worktree. That is an error, instead of an
// empty directory.
func TestRemoteEngineIsRejectedForALiveWorkspace(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		remote := "tcp://" + w.proxy(t)
		w.setenv("DOCKER_HOST", remote)
		w.setenv("RALPH_WORKSPACE", "live")
		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Check(t, is.Contains(res.stderr, "Error: the engine at "+remote+" is remote and cannot mount the worktree"))
		assert.Check(t, is.Contains(res.stderr, `Hint: set sandbox.workspace to "clone" or "auto"`))
	})
}

// proxy makes the engine reachable at an address that is not this machine's
// loopback, and returns it.
func (w *world) proxy(t *testing.T) string {
	t.Helper()
	if w.engine.Gateway == "" {
		skipOrFail(t, "RALPH_TEST_GATEWAYS names no address for this engine")
	}
	listener, err := net.Listen("tcp", w.engine.Gateway+":0")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, listener.Close()) })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go pipe(in, strings.TrimPrefix(w.engine.Host, "unix://"))
		}
	}()
	return listener.Addr().String()
}

// pipe joins a connection to a socket until either ends.
func pipe(in net.Conn, socket string) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // the other side has hung up
			ended <- struct{}{}
		}()
	}
	<-ended
}

// A folder below the plugin's state may be missing or not writable; what the
// user sees then is an error, not half a sandbox.
func TestUnwritableStateDirectory(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.config, "ralph", "locks"), "not a folder")
		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Check(t, is.Contains(res.stderr, "Error: creating the lock directory: "))
	})
}

// unanswered is the status of a request that the engine gets, but whose answer is lost.
const unanswered = -1

// refusing puts a proxy before the engine that refuses some requests: those for
// which refuse returns a status.
func (w *world) refusing(t *testing.T, refuse func(r *http.Request) (status int, message string)) {
	t.Helper()
	engine := strings.TrimPrefix(w.engine.Host, "unix://")
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "engine"})
			r.Out.Host = r.In.Host
		},
		FlushInterval: -1,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", engine)
		}},
	}
	path := filepath.Join(w.dir, "engine.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	assert.NilError(t, err)
	assert.NilError(t, os.Chmod(path, 0o666))
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		status, message := refuse(r)
		if status == unanswered {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		if status != 0 {
			http.Error(rw, fmt.Sprintf(`{"message":%q}`, message), status)
			return
		}
		proxy.ServeHTTP(rw, r)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	w.setenv("DOCKER_HOST", "unix://"+path)
}

// A build in a sandbox that runs asks the engine for little: the sandbox, one process each for the session,
// the loop and its commits, and what was blocked. Keys that the proxy has
// already are not sent again, and agent settings are copied by the loop's process.
func TestWarmBuildEngineCallsAndGitProcesses(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.useDefaults()
		image := w.imageWith(t, "/usr/local/bin/claude", "#!/bin/sh\nexit 1\n")
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-some")
		w.write(t, filepath.Join(w.home, ".claude", "CLAUDE.md"), "Be brief.\n")
		var mu sync.Mutex
		var calls []string
		w.refusing(t, func(r *http.Request) (int, string) {
			call := r.Method + " " + r.URL.Path
			if strings.HasSuffix(call, "/exec") {
				body, err := io.ReadAll(r.Body)
				assert.Check(t, err)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte(`"_busy"`)) {
					call += " _busy"
				}
			}
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, call)
			return 0, ""
		})
		take := func() []string {
			mu.Lock()
			defer mu.Unlock()
			made := calls
			calls = nil
			return made
		}
		gitProcesses := w.logGit(t)
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"pwd >a.txt"}})
		for _, agent := range []string{"shell", "claude"} { // the first completes the task
			limit := 14
			if agent == "claude" { // which has settings, and whose failed requests are followed
				limit = 17
			}
			flags := []string{"--agent", agent, "--image", image}
			w.ok(t, append(flags, "--recreate", "build")...)
			w.ok(t, append(flags, "build")...) // the first whose sandbox runs already
			take()
			gitProcesses()
			started := time.Now()
			w.ok(t, append(flags, "build")...)
			// Every two seconds, the sandbox and its proxy are looked at.
			limit += 3 * int(time.Since(started)/(2*time.Second))
			const gitLimit = 7
			processes := gitProcesses()
			assert.Check(t, len(processes) <= gitLimit, "%s: %d git processes:\n%s", agent, len(processes), strings.Join(processes, ""))
			made, execs := take(), 0
			for _, call := range made {
				if strings.HasSuffix(call, "/exec") {
					execs++
				}
				if strings.HasSuffix(call, " _busy") { // the process of the session has not ended yet
					limit += 3
				}
			}
			assert.Check(t, len(made) <= limit, "%s: %d calls:\n%s", agent, len(made), strings.Join(made, "\n"))
			assert.Check(t, execs == 3, "%s: the session, the command and the commits:\n%s", agent, strings.Join(made, "\n"))
		}
	})
}

// logGit puts a git in the user's PATH that logs its arguments but for settings. take returns
// what was logged since its last call.
func (w *world) logGit(t *testing.T) (take func() []string) {
	t.Helper()
	git, err := exec.LookPath("git")
	assert.NilError(t, err)
	dir := filepath.Join(w.dir, "logging")
	log := filepath.Join(dir, "log")
	w.write(t, log, "")
	w.write(t, filepath.Join(dir, "git"), fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$(printf ' %%s' \"$@\" | sed 's/ -c [^ ]*//g')\" >>'%s'\nexec '%s' \"$@\"\n", log, git))
	assert.NilError(t, os.Chmod(filepath.Join(dir, "git"), 0o755))
	w.prependPath(dir)
	return func() []string {
		content, err := os.ReadFile(log)
		assert.NilError(t, err)
		assert.NilError(t, os.Truncate(log, 0))
		return slices.Collect(strings.Lines(string(content)))
	}
}
