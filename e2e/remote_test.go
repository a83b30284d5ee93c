//go:build unix

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/crypto/ssh"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/slowlink"
)

// Remote engines, reached by TLS and by a real SSH server over a slow link. They have other home directories
// and temporary files than this machine.

// linkDelay is that of one direction: a round trip takes 50 ms.
const linkDelay = 25 * time.Millisecond

// endpoint is how a world's commands reach a remote engine.
type endpoint struct {
	host  string // DOCKER_HOST
	certs string // DOCKER_CERT_PATH, for TLS
}

// connectTLS has the world's commands use the engine by TCP and TLS with certificates of both sides.
func (w *world) connectTLS(t *testing.T) *slowlink.Link {
	t.Helper()
	certs := os.Getenv("RALPH_TEST_CERTS")
	if certs == "" {
		skipOrFail(t, "RALPH_TEST_CERTS names no certificates; \"make test\" makes some")
	}
	w.endpoint = &endpoint{certs: filepath.Join(w.home, "certs")}
	for _, name := range []string{"ca.pem", "cert.pem", "key.pem"} {
		w.write(t, filepath.Join(w.endpoint.certs, name), w.readFile(t, filepath.Join(certs, name)))
	}
	w.chown(t, w.endpoint.certs)
	link := w.slowLink(t, w.engine.TLS)
	w.endpoint.host = "tcp://" + link.Addr()
	w.setenv("DOCKER_HOST", w.endpoint.host)
	w.setenv("DOCKER_TLS_VERIFY", "1")
	w.setenv("DOCKER_CERT_PATH", w.endpoint.certs)
	return link
}

// slowLink opens a link from an address that is not the loopback of this machine.
func (w *world) slowLink(t *testing.T, target string) *slowlink.Link {
	t.Helper()
	if w.engine.Gateway == "" {
		skipOrFail(t, "RALPH_TEST_GATEWAYS names no address for this engine")
	}
	link, err := slowlink.Listen(t.Context(), w.engine.Gateway+":0", "tcp", target, linkDelay)
	assert.NilError(t, err)
	t.Cleanup(link.Close)
	return link
}

// The user of the SSH server, who is in the group that may use the engine's socket.
const (
	sshUser = "builder"
	sshUID  = 1236
)

// connectSSH has the world's commands use the engine by ssh://, with a key of the user.
func (w *world) connectSSH(t *testing.T) *slowlink.Link {
	t.Helper()
	tree := os.Getenv("RALPH_TEST_SSH")
	if tree == "" {
		skipOrFail(t, "RALPH_TEST_SSH names no SSH server; \"make test\" fetches one")
	}
	if os.Getuid() != 0 {
		skipOrFail(t, "only root can start an SSH server for another user")
	}
	groups := w.socketGroups()
	assert.Assert(t, len(groups) == 1, "%s does not exist", w.engine.Host)
	w.endpoint = &endpoint{}
	server, err := os.MkdirTemp(w.engine.Dir(), "ssh-")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, os.RemoveAll(server)) })
	home, bin := filepath.Join(server, "home"), filepath.Join(server, "bin")
	assert.NilError(t, errors.Join(os.Chmod(server, 0o755), os.Mkdir(home, 0o755), os.Mkdir(bin, 0o755), os.Chown(home, sshUID, sshUID)))
	assert.NilError(t, copyProgram(filepath.Join(shared.bin, "docker"), filepath.Join(bin, "docker")))

	hostKey := makeSSHKey(t, filepath.Join(server, "host_key"), 0, 0)
	userKey := makeSSHKey(t, filepath.Join(w.home, ".ssh", "id_ed25519"), w.uid, w.gid)
	assert.NilError(t, os.WriteFile(filepath.Join(server, "authorized_keys"), []byte(userKey), 0o644))
	link := w.slowLink(t, w.startSSHServer(t, tree, server, strconv.Itoa(int(groups[0]))))
	host, port, err := net.SplitHostPort(link.Addr())
	assert.NilError(t, err)
	w.write(t, filepath.Join(w.home, ".ssh", "known_hosts"), fmt.Sprintf("[%s]:%s %s", host, port, hostKey))
	w.chown(t, filepath.Join(w.home, ".ssh"))
	w.giveSSHAUser(t, tree)
	w.endpoint.host = "ssh://" + sshUser + "@" + link.Addr()
	w.setenv("DOCKER_HOST", w.endpoint.host)
	return link
}

// makeSSHKey writes a key and returns its public part.
func makeSSHKey(t *testing.T, path string, uid, gid int) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	assert.NilError(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	assert.NilError(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	assert.NilError(t, err)
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	assert.NilError(t, os.Chown(path, uid, gid))
	return string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
}

// startSSHServer starts an SSH server on the engine's machine, with a directory there, and returns its
// address. The only docker command on the PATH of its user, who is in a group, is in bin.
func (w *world) startSSHServer(t *testing.T, tree, dir, group string) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(shared.root, "scripts", "engine", "sshd.sh"))
	assert.NilError(t, err)
	host, _, err := net.SplitHostPort(w.engine.TLS)
	assert.NilError(t, err)
	settings := []string{
		"HostKey " + filepath.Join(dir, "host_key"),
		"AuthorizedKeysFile " + filepath.Join(dir, "authorized_keys"),
		"PidFile none",
		"PasswordAuthentication no",
		"MaxStartups 100",
		// As on a machine whose engine has the default socket.
		"SetEnv DOCKER_HOST=" + w.engine.Host + " PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin",
	}
	config := filepath.Join(dir, "sshd_config")
	var address string
	// Another program may take the port before the server does.
	for range 3 {
		address = net.JoinHostPort(host, strconv.Itoa(freePort(t)))
		assert.NilError(t, os.WriteFile(config, []byte(strings.Join(append(settings, "ListenAddress "+address), "\n")+"\n"), 0o644))
		cmd := exec.Command("nsenter", "--target", strconv.Itoa(daemonOf(t, w.engine)), "--net", "--mount", "--pid",
			"unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child", "--mount-proc",
			"bash", "-c", string(script), "sshd.sh", tree, config, fmt.Sprintf("%s:%d:%s", sshUser, sshUID, filepath.Join(dir, "home")), group)
		stdin, err := cmd.StdinPipe() // the server ends with the tests
		assert.NilError(t, err)
		server := start(t, cmd)
		t.Cleanup(func() { _ = stdin.Close() })
		if err := server.awaitListening(t); err == nil {
			return address
		} else if !strings.Contains(err.Error(), "Address already in use") {
			assert.NilError(t, err)
		}
	}
	t.Fatalf("no port is free, such as that of %s", address)
	return ""
}

// freePort returns a port that no program of this machine listens on.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	defer func() { assert.Check(t, listener.Close()) }()
	return listener.Addr().(*net.TCPAddr).Port
}

// awaitListening waits until an SSH server listens or has ended.
func (p *process) awaitListening(t *testing.T) (err error) {
	t.Helper()
	eventually(t, func() error {
		select {
		case <-p.done:
			err = fmt.Errorf("sshd: %s", p.stderr.String())
			return nil
		default:
		}
		if !strings.Contains(p.stderr.String(), "Server listening on") {
			return errors.New("sshd does not listen")
		}
		return nil
	})
	return err
}

// giveSSHAUser makes ssh find the world's user and home, which this machine's list of users does not
// have.
func (w *world) giveSSHAUser(t *testing.T, tree string) {
	t.Helper()
	program, err := exec.LookPath("ssh")
	assert.NilError(t, err)
	dir := filepath.Join(w.dir, "ssh")
	library, users, groups := filepath.Join(dir, "nss.so"), filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	w.write(t, users, fmt.Sprintf("una:x:%d:%d::%s:/bin/sh\n", w.uid, w.gid, w.home))
	w.write(t, groups, fmt.Sprintf("una:x:%d:\n", w.gid))
	assert.NilError(t, copyProgram(filepath.Join(tree, "libnss_wrapper.so"), library))
	w.write(t, filepath.Join(dir, "ssh"), fmt.Sprintf(
		"#!/bin/sh\nLD_PRELOAD='%s' NSS_WRAPPER_PASSWD='%s' NSS_WRAPPER_GROUP='%s' exec '%s' \"$@\"\n", library, users, groups, program))
	assert.NilError(t, os.Chmod(filepath.Join(dir, "ssh"), 0o755))
	w.prependPath(dir)
}

// createContext creates a Docker context for the world's engine, remote or not. Commands use it
// with --context only.
func (w *world) createContext(t *testing.T, name string) {
	t.Helper()
	docker := "host=" + w.engine.Host
	if w.endpoint != nil {
		docker = "host=" + w.endpoint.host
		if certs := w.endpoint.certs; certs != "" {
			docker += ",ca=" + filepath.Join(certs, "ca.pem") + ",cert=" + filepath.Join(certs, "cert.pem") + ",key=" + filepath.Join(certs, "key.pem")
		}
	}
	for _, variable := range []string{"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"} {
		w.setenv(variable, "")
	}
	run(t, w.docker("context", "create", name, "--docker", docker)).expect(t, 0)
}

// The set-up itself: docker works over a slow link, fails without it, and works again.
func TestDockerOverASlowLink(t *testing.T) {
	remoteWorlds(t, func(t *testing.T, w *world, link *slowlink.Link) {
		measure := func(args ...string) (result, slowlink.Stats) {
			before, started := link.Stats(), time.Now()
			res := run(t, w.docker(args...))
			took, stats := time.Since(started), link.Stats().Since(before)
			t.Logf("docker %s: %v, %d round trips one after the other, %d of %d connections",
				args[0], took.Round(time.Millisecond), stats.Sequential, stats.RoundTrips, stats.Connections)
			// The first may end what an earlier command has begun.
			atLeast := time.Duration(stats.Sequential-1) * 2 * linkDelay
			assert.Check(t, took >= atLeast, "%v, want at least %v", took, atLeast)
			return res, stats
		}
		res, _ := measure("version", "--format", "{{.Server.Version}}")
		version := res.expect(t, 0).stdout
		assert.Check(t, version != "\n")
		name := strings.ReplaceAll(w.slug, "/", "-") + "-slow"
		t.Cleanup(func() {
			_, err := w.engine.Client(t).ContainerRemove(context.WithoutCancel(t.Context()), name, client.ContainerRemoveOptions{Force: true})
			assert.Check(t, err)
		})
		res, _ = measure("run", "--detach", "--init", "--name", name, engines.BaseImage(), "sleep", "infinity")
		res.expect(t, 0)
		res, stats := measure("exec", name, "echo", "hello")
		assert.Equal(t, res.expect(t, 0).stdout, "hello\n")
		assert.Check(t, stats.Sequential > 2, "%+v", stats)
		input := w.docker("exec", "--interactive", name, "cat")
		input.Stdin = strings.NewReader("sent\n")
		assert.Equal(t, run(t, input).expect(t, 0).stdout, "sent\n")

		// The engine has another directory at the worktree's path.
		res = run(t, w.docker("run", "--rm", "--volume", w.repo+":/mounted", engines.BaseImage(), "ls", "/mounted"))
		assert.Equal(t, res.expect(t, 0).stdout, "")

		follow := start(t, w.docker("exec", name, "sh", "-c", "echo started; exec sleep infinity"))
		eventually(t, func() error {
			if follow.stdout.String() != "started\n" {
				return errors.New("not started")
			}
			return nil
		})
		link.Cut()
		assert.Check(t, follow.wait(t).code != 0)
		assert.Check(t, run(t, w.docker("version")).code != 0)
		assert.NilError(t, link.Restore())
		assert.Equal(t, run(t, w.docker("version", "--format", "{{.Server.Version}}")).expect(t, 0).stdout, version)

		w.createContext(t, "big")
		res = run(t, w.docker("--context", "big", "exec", name, "echo", "by context"))
		assert.Equal(t, res.expect(t, 0).stdout, "by context\n")
	})
}

// The worktree of a sandbox on this machine's engine is among the mounts that remoteWorlds rejects.
func TestHostMountsAreFound(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		assert.Check(t, is.Contains(hostMounts(t, w), w.repo))
	})
}
