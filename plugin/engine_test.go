package plugin

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/cli/cli/command"
	"github.com/docker/cli/cli/context/docker"
	"github.com/docker/cli/cli/context/store"
	"github.com/docker/cli/cli/flags"
	"github.com/moby/moby/client"
	"github.com/spf13/cobra"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// dispatch returns a dispatcher, and its root command, for options of the Docker CLI. There is the
// context "big"; current is that of the configuration file.
func dispatch(t *testing.T, current string, args ...string) (dispatcher, *cobra.Command) {
	t.Helper()
	dir := t.TempDir()
	contexts := store.New(filepath.Join(dir, "contexts"), command.DefaultContextStoreConfig())
	assert.NilError(t, contexts.CreateOrUpdate(store.Metadata{
		Name: "big", Metadata: command.DockerContext{}, Endpoints: map[string]any{docker.DockerEndpoint: docker.EndpointMeta{Host: "ssh://big"}},
	}))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"currentContext": "`+current+`"}`), 0o600))
	cmd, opts := &cobra.Command{}, flags.NewClientOptions()
	opts.InstallFlags(cmd.Flags())
	assert.NilError(t, cmd.Flags().Parse(append([]string{"--config", dir}, args...)))
	opts.SetDefaultOptions(cmd.Flags())
	cli, err := command.NewDockerCli(command.WithCombinedStreams(io.Discard))
	assert.NilError(t, err)
	assert.NilError(t, cli.Initialize(opts))
	return dispatcher{cli: cli, version: "1.2.3"}, cmd
}

func TestSelectedEngine(t *testing.T) {
	for _, tc := range []struct {
		name    string
		current string
		env     map[string]string
		args    []string
		want    host.Engine
		by      string
	}{
		{name: "default context", want: host.Engine{Context: "default", Host: client.DefaultDockerHost}},
		{name: "docker context use", current: "big", want: host.Engine{Context: "big", Host: "ssh://big"}},
		{name: "--context", args: []string{"--context", "big"}, want: host.Engine{Context: "big", Host: "ssh://big"}, by: "--context"},
		{name: "-H", current: "big", args: []string{"-H", "tcp://127.0.0.1:1"}, want: host.Engine{Host: "tcp://127.0.0.1:1"}, by: "--host"},
		{
			name: "DOCKER_HOST", current: "big", env: map[string]string{"DOCKER_HOST": "ssh://other"},
			want: host.Engine{Host: "ssh://other"}, by: "DOCKER_HOST",
		},
		{
			name: "DOCKER_CONTEXT", env: map[string]string{"DOCKER_CONTEXT": "big"},
			want: host.Engine{Context: "big", Host: "ssh://big"}, by: "DOCKER_CONTEXT",
		},
		{name: "context that does not exist", args: []string{"--context", "none"}, want: host.Engine{Context: "none"}, by: "--context"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT"} {
				t.Setenv(name, tc.env[name])
			}
			d, cmd := dispatch(t, tc.current, tc.args...)
			e, by := d.selected(cmd)
			assert.Equal(t, e, tc.want)
			assert.Equal(t, by, tc.by)
		})
	}
}

func TestTLSFilesLeavesOutMissingFiles(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	assert.NilError(t, os.WriteFile(ca, nil, 0o600))
	_, cmd := dispatch(t, "", "--tlscacert", ca, "--tlscert", filepath.Join(dir, "none"), "--tlskey", filepath.Join(dir, "none"))
	assert.Equal(t, tlsFiles(cmd.Flags(), true), host.EngineTLS{CA: ca, SkipVerify: true})
}

// TestDialStdio is the program behind the fake ssh: it connects its standard streams to a socket.
func TestDialStdio(t *testing.T) {
	socket := os.Getenv("RALPH_TEST_DIAL")
	if socket == "" {
		t.Skip("no socket")
	}
	conn, err := net.Dial("unix", socket)
	assert.NilError(t, err)
	go func() { _, _ = io.Copy(conn, os.Stdin) }()
	_, _ = io.Copy(os.Stdout, conn)
}

// serve is an engine that only responds to a ping, at a socket. It returns the user agents.
func serve(t *testing.T, socket string) (agents chan string) {
	t.Helper()
	agents = make(chan string, 100)
	listener, err := net.Listen("unix", socket)
	assert.NilError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents <- r.UserAgent()
		w.Header().Set("Api-Version", "1.41")
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return agents
}

func TestConnectToAnotherEngine(t *testing.T) {
	d, _ := dispatch(t, "")
	socket := filepath.Join(t.TempDir(), "s")
	agents := serve(t, socket)
	for _, e := range []host.Engine{
		{Host: "unix://" + socket},
		{Context: "removed", Host: "unix://" + socket},
		{Context: "big", Host: "unix://" + socket}, // has another address now
	} {
		api, err := d.connectTo(t.Context(), e)
		assert.NilError(t, err)
		assert.Equal(t, api.DaemonHost(), "unix://"+socket)
		assert.Equal(t, <-agents, "docker-ralph/1.2.3")
	}
	_, err := d.connectTo(t.Context(), host.Engine{Host: "unix://" + socket + "none"})
	assert.ErrorContains(t, err, "no such file")
	_, err = d.connectTo(t.Context(), host.Engine{Host: "tcp://127.0.0.1:1", TLS: host.EngineTLS{CA: "/does/not/exist"}})
	assert.ErrorContains(t, err, "/does/not/exist")
}

// TestConnectBySSHSharesOneLogin has a program ssh that connects to the engine's socket.
func TestConnectBySSHSharesOneLogin(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	serve(t, socket)
	self, err := os.Executable()
	assert.NilError(t, err)
	script := "#!/bin/sh\n[ \"$1\" != -O ] || exit 255\nfor a; do printf '%s\\n' \"$a\"; done >'" + dir + "/args'\nRALPH_TEST_DIAL='" + socket + "' exec '" + self + "' -test.run '^TestDialStdio$'\n"
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("XDG_RUNTIME_DIR", "/nonexistent")
	d, _ := dispatch(t, "")
	api, err := d.connectTo(t.Context(), host.Engine{Context: "big", Host: "ssh://big"})
	assert.NilError(t, err)
	assert.Equal(t, api.DaemonHost(), "ssh://big")
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	assert.NilError(t, err)
	assert.Assert(t, is.Contains(string(args), "-o\nControlMaster=auto\n-o\nControlPersist=60s\n-o\nControlPath=/tmp/docker-ralph-"))
	assert.Assert(t, strings.HasSuffix(string(args), "--\nbig\ndocker system dial-stdio\n"), string(args))
}

func TestPrivateDir(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "ralph-")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	open, link := filepath.Join(base, "open"), filepath.Join(base, "link")
	assert.NilError(t, os.Mkdir(open, 0o700))
	assert.NilError(t, os.Chmod(open, 0o750)) //nolint:gosec // must be refused
	assert.NilError(t, os.Symlink(base, link))
	for _, tc := range []struct{ name, dir, err string }{
		{"new", filepath.Join(base, "new"), ""},
		{"exists", base, ""},
		{"others can use it", open, "accessible by other users"},
		{"a link", link, "accessible by other users"},
		{"too long", filepath.Join(base, strings.Repeat("x", 30)), "too long"},
		{"special characters", base + "/%C", "special characters"},
		{"no parent", base + "/none/x", "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := privateDir(tc.dir); tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
		})
	}
}
