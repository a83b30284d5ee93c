//go:build unix

package e2e

import (
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// Git credentials stay on the host: tokens of git hosts, and keys that sign
// commits.

// gitHost is a host with repositories for those who have its token. The name is
// that of the certificate which Go's own test servers have.
const gitHost = "example.com"

// hostRepository plays the git host of the worktree's origin, behind a company's
// proxy and with a company's certificate. The repository has a branch "feature"
// more than the worktree.
func (w *world) hostRepository(t *testing.T, token string) (bare string, refused *atomic.Int64) {
	t.Helper()
	root := filepath.Join(w.dir, "served")
	bare = filepath.Join(root, w.slug+".git")
	git := func(args ...string) {
		t.Helper()
		run(t, w.command("git", args...)).expect(t, 0)
	}
	w.write(t, filepath.Join(root, "README"), "")
	w.chown(t, root)
	git("clone", "-q", "--bare", w.repo, bare)
	commit := run(t, w.command("git", "-C", bare, "commit-tree", "-m", "The feature", "-p", "HEAD", "HEAD^{tree}")).expect(t, 0).stdout
	git("-C", bare, "branch", "feature", strings.TrimSpace(commit))
	git("-C", bare, "config", "http.receivepack", "true")

	path, err := exec.Command("git", "--exec-path").Output()
	assert.NilError(t, err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Root: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	refused = &atomic.Int64{}
	host := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "una" || password != token {
			refused.Add(1)
			out.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(out, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(out, r)
	}))
	t.Cleanup(host.Close)
	authority := filepath.Join(w.dir, "authority.pem")
	w.write(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: host.Certificate().Raw})))
	w.setenv("SSL_CERT_FILE", authority)
	w.setenv("NO_PROXY", w.engine.Gateway) // where a remote engine is
	w.setenv("HTTPS_PROXY", w.serve(t, tunnelTo(host.Listener.Addr().String())))
	w.git(t, "remote", "set-url", "origin", "https://"+gitHost+"/"+w.slug+".git")
	return bare, refused
}

// tunnelTo is a proxy that knows one host.
func tunnelTo(address string) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != gitHost+":443" {
			http.Error(out, "no such host", http.StatusBadGateway)
			return
		}
		to, err := net.Dial("tcp", address)
		if err != nil {
			http.Error(out, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = to.Close() }()
		from, buffered, err := out.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = from.Close() }()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(to, buffered)
			_ = to.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(from, to)
	})
}

// git in a sandbox fetches with the user's token, and pushes if the user allows it,
// without having the token.
func TestGitTokenStaysOnTheHost(t *testing.T) {
	andRemote(t, withClone, func(t *testing.T, w *world) {
		token := "ghp-stays-with-the-user-of-" + w.engine.Name
		bare, refused := w.hostRepository(t, token)
		// git's own store would be in the user's home, which is looked through.
		w.write(t, filepath.Join(w.dir, "stored"), "https://una:"+token+"@"+gitHost+"\n")
		w.git(t, "config", "--global", "credential.helper", "store --file="+filepath.Join(w.dir, "stored"))
		w.useDefaults()
		w.setenv("RALPH_ALLOW", gitHost)
		pushed := func() string {
			return strings.TrimSpace(run(t, w.command("git", "-C", bare, "branch", "--list", "--format=%(refname:short)", "pushed")).expect(t, 0).stdout)
		}
		steps := func(id string) task {
			return task{ID: id, Title: "Fetch and push: " + id, Steps: []string{
				"git fetch -q origin >fetching 2>&1; git log -1 --format=%s origin/feature >fetched 2>&1; true",
				"git push -q origin HEAD:refs/heads/pushed >pushing 2>&1; true",
				"git ls-remote git@" + gitHost + ":" + w.slug + ".git refs/heads/feature >by-ssh 2>&1; true",
				"git ls-remote $(git config --get-regexp 'url.*insteadof' | sed -n 's,^url.\\(http:[^ ]*/git/\\).*,\\1,p' | head -1)e2e/other.git >other 2>&1; true",
				printKeys + "; git config --list --show-origin >>seen; mv seen .ralph/seen",
				"rm -f fetched.was; git add -A; git commit -qm '" + id + "'",
			}}
		}
		argvs := watchArgv(t, token, "git-remote-http")

		w.plan(t, steps("none"))
		res := w.ralph(t, "build", "-n", "1").expect(t, 0)
		assert.Check(t, !strings.Contains(w.read(t, "fetched"), "The feature"), res.stderr)
		assert.Equal(t, pushed(), "")

		w.plan(t, steps("read"))
		res = w.ralph(t, "--git-token", "read", "build", "-n", "1").expect(t, 0)
		assert.Equal(t, w.read(t, "fetched"), "The feature\n", res.stdout+res.stderr+w.read(t, "fetching"))
		assert.Check(t, is.Contains(w.read(t, "by-ssh"), "refs/heads/feature"))
		assert.Check(t, is.Contains(w.read(t, "pushing"), "403"))
		assert.Check(t, is.Contains(w.read(t, "other"), "403"))
		assert.Check(t, !strings.Contains(res.stdout+res.stderr, token))
		assert.Check(t, !strings.Contains(res.stderr, "Warning"), res.stderr)
		assert.Equal(t, pushed(), "")
		assert.Equal(t, refused.Load(), int64(0), "the host asks for a token")

		w.plan(t, steps("write"))
		w.ralph(t, "--git-token", "write", "build", "-n", "1").expect(t, 0)
		assert.Equal(t, w.read(t, "pushing"), "")
		assert.Equal(t, pushed(), "pushed")
		assert.Check(t, is.Contains(w.read(t, "other"), "403"))

		sandbox := w.container(t)
		seen := run(t, w.docker("exec", "-u", w.insideUser(), sandbox.ID, "cat", filepath.Join(w.repo, ".ralph", "seen"))).expect(t, 0).stdout
		assert.Check(t, is.Contains(seen, ":3129/git/"+w.slug+".git"))
		assert.Check(t, !strings.Contains(seen, token))
		assert.DeepEqual(t, argvs(), map[string]bool{token: false, "git-remote-http": true})
		w.assertNowhere(t, token)

		// The proxy has it no longer than the command runs. Keys of one that was killed
		// go with the next.
		by := regexp.MustCompile(`http://\S+:3129/git/`).FindString(seen) + w.slug + ".git"
		asks := func() string {
			answer := run(t, w.docker("exec", "-u", w.insideUser(), sandbox.ID, "git", "-c", "http.proxy=", "ls-remote", by, "refs/heads/feature"))
			return answer.stdout + answer.stderr
		}
		assert.Check(t, is.Contains(asks(), "503"))
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "--git-token", "read", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		assert.Check(t, is.Contains(asks(), "refs/heads/feature"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		w.ok(t, "shell", "--", "true")
		assert.Check(t, is.Contains(asks(), "refs/heads/feature"), "its agent still works")
		w.write(t, w.pathInside(t, "go"), "")
		w.ralph(t, "attach") // the loop may have ended before
		eventually(t, func() error {
			w.ok(t, "shell", "--", "true")
			if got := asks(); !strings.Contains(got, "503") {
				return errors.New(got)
			}
			return nil
		})

		// A repository cannot ask for it by itself.
		w.configure(t, "[sandbox]\ngit_token = \"read\"\n")
		res = w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `privileged settings are not approved: sandbox.git_token = "read" (`))
	})
}

// A warning is printed where the token would not be safe, or there is none.
func TestGitTokenIsNotUsedWhereItIsUnsafe(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_GIT_TOKEN", "read")
		w.plan(t)
		for _, tc := range []struct{ workspace, network, why string }{
			{"live", "allowlist", `it needs a clone (sandbox.workspace = "clone"), because otherwise the agent can change which repository the token is for`},
			{"clone", "deny", `it needs the network policy "allowlist"`},
			{"clone", "allowlist", "no token for git.example: none in git or the environment"},
		} {
			w.setenv("RALPH_WORKSPACE", tc.workspace)
			w.setenv("RALPH_NETWORK", tc.network)
			res := w.ralph(t, "--recreate", "build").expect(t, 0)
			assert.Check(t, is.Contains(res.stderr, `Warning: sandbox.git_token = "read" has no effect: `+tc.why))
		}
	})
}

// addSigningKey makes an ssh key that git signs with, and an ssh-agent for it, which
// does not have it yet.
func (w *world) addSigningKey(t *testing.T) (key string) {
	t.Helper()
	for _, program := range []string{"ssh-agent", "ssh-keygen", "ssh-add"} {
		if _, err := exec.LookPath(program); err != nil {
			skipOrFail(t, "git verifies signatures with the programs of openssh-client: "+err.Error())
		}
	}
	folder := filepath.Join(w.home, ".ssh")
	key = filepath.Join(folder, "id")
	assert.NilError(t, os.MkdirAll(folder, 0o700))
	run(t, w.named("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "una", "-f", key)).expect(t, 0)
	w.chown(t, folder)
	w.write(t, filepath.Join(w.home, "signers"), "una@example.com "+w.readFile(t, key+".pub"))
	w.git(t, "config", "--global", "gpg.format", "ssh")
	w.git(t, "config", "--global", "user.signingKey", "~/.ssh/id.pub")
	w.git(t, "config", "--global", "gpg.ssh.allowedSignersFile", filepath.Join(w.home, "signers"))

	socket := filepath.Join(folder, "agent")
	agent := start(t, w.command("ssh-agent", "-D", "-a", socket))
	t.Cleanup(func() { _ = agent.cmd.Process.Kill() })
	waitForFile(t, socket)
	w.setenv("SSH_AUTH_SOCK", socket)
	return key
}

// named makes a command of the user for which the user has to have a name: the
// programs of OpenSSH do not work for a number without one.
func (w *world) named(name string, args ...string) *exec.Cmd {
	cmd := w.command(name, args...)
	cmd.SysProcAttr.Credential = nil
	return cmd
}

func (w *world) readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	assert.NilError(t, err)
	return string(content)
}

// rawAgentRequests is a script that has the socket of a sandbox sign a login, remove all
// keys and list them, and shows the kinds of the answers.
const rawAgentRequests = `
use Socket;
sub str { pack('N', length $_[0]) . $_[0] }
sub ask {
	my $s;
	socket($s, PF_UNIX, SOCK_STREAM, 0) && connect($s, sockaddr_un($ENV{RALPH_SIGN_SOCKET})) or die $!;
	syswrite($s, str($_[0]));
	sysread($s, my $answer, 4096);
	ord substr($answer, 4, 1);
}
my (undef, $text) = split ' ', qx(git config user.signingKey);
my $key = qx(echo $text | base64 -d);
print join ' ', ask("\x0d" . str($key) . str(str('x' x 32) . "\x32una") . "\0\0\0\0"), ask("\x13"), ask("\x0b");
`

// Commits of the agent are signed by the user's ssh-agent, which the sandbox
// cannot use for anything else.
func TestSignedCommits(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		key := w.addSigningKey(t)
		verified := func(args ...string) string {
			return run(t, w.named("git", append([]string{"-c", "safe.directory=*"}, args...)...)).expect(t, 0).stdout
		}
		last := func() string { return verified("log", "-1", "--format=%G? %GS %s") }

		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		w.ralph(t, "build").expect(t, 0)
		assert.Equal(t, last(), "N  Add a\n", "nobody has asked for signatures")

		res := w.ralph(t, "--sign", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "ssh-add"))
		run(t, w.named("ssh-add", "-q", key)).expect(t, 0)

		w.write(t, filepath.Join(w.repo, "raw.pl"), rawAgentRequests)
		w.git(t, "add", "raw.pl")
		w.git(t, "commit", "-q", "-m", "A script")
		w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{
			"perl raw.pl > raw.txt 2>&1; true",
			"ls -ld $(dirname $RALPH_SIGN_SOCKET) > folder.txt; touch $(dirname $RALPH_SIGN_SOCKET)/x 2>> folder.txt; echo \"sock=$SSH_AUTH_SOCK\" >> folder.txt",
		}})
		res = w.ralph(t, "--sign", "--recreate", "build").expect(t, 0)
		assert.Equal(t, last(), "G una@example.com Add b\n", res.stdout+res.stderr)
		verified("verify-commit", "HEAD")
		assert.Check(t, is.Contains(w.read(t, "folder.txt"), "drwxr-xr-x"))
		assert.Check(t, is.Contains(w.read(t, "folder.txt"), "Read-only file system"))
		assert.Check(t, is.Contains(w.read(t, "folder.txt"), "sock=\n"))
		assert.Check(t, is.Equal(w.read(t, "raw.txt"), "5 5 12"), "refused, refused, and the one key")
		sockets, err := filepath.Glob(filepath.Join(w.config, "ralph", "sign", "*", "*"))
		assert.NilError(t, err)
		assert.Check(t, is.Len(sockets, 0), "it ends with its command")

		// An agent that does not sign makes the commit fail, and nothing else.
		w.ignore(t, "failed.txt")
		w.plan(t, task{ID: "c", Title: "Add c", Steps: []string{
			"echo c > c.txt; touch begun; while ! test -e go; do sleep 0.1; done; git add c.txt; git commit -qm 'Only c' 2> failed.txt; true",
			"rm -f begun go c.txt; git config user.name >/dev/null; git -c commit.gpgSign=false commit -qam 'Unsigned' --allow-empty",
		}})
		build := start(t, w.docker("ralph", "--sign", "build", "-n", "1"))
		waitForFile(t, w.pathInside(t, "begun"))
		run(t, w.named("ssh-add", "-q", "-D")).expect(t, 0)
		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t)
		assert.Check(t, is.Contains(w.readFile(t, w.pathInside(t, "failed.txt")), "ssh-agent did not sign"))

		// What a sandbox for one command had goes with it.
		run(t, w.named("ssh-add", "-q", key)).expect(t, 0)
		w.plan(t, task{ID: "d", Title: "Add d", Steps: []string{"echo d > d.txt"}})
		w.ok(t, "clean", "--force")
		w.configureUser(t, "[sandbox]\nreuse_container = false\nsign = true\n")
		res = w.ralph(t, "build", "-n", "1").expect(t, 0)
		assert.Equal(t, last(), "G una@example.com Add d\n", res.stdout+res.stderr)
		folders, err := filepath.Glob(filepath.Join(w.config, "ralph", "sign", "*"))
		assert.NilError(t, err)
		assert.Check(t, is.Len(folders, 0))
	})
}

// A repository cannot enable signing without approval, and a sandbox without a private
// git directory cannot sign.
func TestUnsignedCommits(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.plan(t)
		w.setenv("RALPH_WORKSPACE", "live")
		res := w.ralph(t, "--recreate", "--sign", "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, `Warning: sandbox.sign has no effect, and commits are not signed: it needs a clone (sandbox.workspace = "clone")`))

		w.setenv("RALPH_WORKSPACE", "clone")
		w.setenv("SSH_AUTH_SOCK", "")
		res = w.ralph(t, "--sign", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `git config --global gpg.format ssh`))

		w.configure(t, "[sandbox]\nsign = true\n")
		res = w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `privileged settings are not approved: sandbox.sign = "true" (`))
	})
}
