//go:build unix

package e2e

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
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

// gitHost is a host with repositories for those who have its token. The name is
// that of the certificate which Go's own test servers have.
const gitHost = "example.com"

// hostRepository plays the git host of the work tree's origin, behind a company's
// proxy and with a company's certificate. The repository has a branch "feature"
// more than the work tree.
func (w *world) hostRepository(t *testing.T, token string) (bare string, refused *atomic.Int64) {
	t.Helper()
	root := filepath.Join(w.dir, "served")
	bare = filepath.Join(root, w.slug+".git")
	git := func(args ...string) {
		t.Helper()
		run(t, w.command("git", args...)).expect(t, 0)
	}
	w.write(t, filepath.Join(root, "README"), "")
	w.own(t, root)
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

// git in a sandbox fetches with the user's token, and pushes if the user has said
// so, without having it.
func TestTheGitHostsTokenStaysOutside(t *testing.T) {
	privately(t, func(t *testing.T, w *world) {
		token := "ghp-stays-with-the-user-of-" + w.engine.Name
		bare, refused := w.hostRepository(t, token)
		// git's own store would be in the user's home, which is looked through.
		w.write(t, filepath.Join(w.dir, "stored"), "https://una:"+token+"@"+gitHost+"\n")
		w.git(t, "config", "--global", "credential.helper", "store --file="+filepath.Join(w.dir, "stored"))
		w.byDefault()
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
				lookForKeys + "; git config --list --show-origin >>seen; mv seen /tmp/seen",
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
		seen := run(t, w.docker("exec", sandbox.ID, "cat", "/tmp/seen")).expect(t, 0).stdout
		assert.Check(t, is.Contains(seen, ":8080/git/"+w.slug+".git"))
		assert.Check(t, !strings.Contains(seen, token))
		assert.DeepEqual(t, argvs(), map[string]bool{token: false, "git-remote-http": true})
		w.nowhere(t, token)

		// The proxy has it no longer than the command runs. Keys of one that was killed
		// go with the next.
		by := regexp.MustCompile(`http://\S+:8080/git/`).FindString(seen) + w.slug + ".git"
		asks := func() string {
			answer := run(t, w.docker("exec", "-u", fmt.Sprintf("%d:%d", w.uid, w.gid), sandbox.ID, "git", "-c", "http.proxy=", "ls-remote", by, "refs/heads/feature"))
			return answer.stdout + answer.stderr
		}
		assert.Check(t, is.Contains(asks(), "503"))
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "--git-token", "read", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		assert.Check(t, is.Contains(asks(), "refs/heads/feature"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		w.ok(t, "task", "list")
		assert.Check(t, is.Contains(asks(), "refs/heads/feature"), "its agent still works")
		w.write(t, filepath.Join(w.repo, "go"), "")
		eventually(t, func() error {
			w.ok(t, "task", "list")
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

// Where the token would not be safe, or there is none, a warning says so.
func TestTheGitHostsTokenIsNotUsed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_GIT_TOKEN", "read")
		w.plan(t)
		for _, tc := range []struct{ git, network, why string }{
			{"direct", "allowlist", `it needs sandbox.git = "private", because otherwise the agent can change which repository the token is for`},
			{"private", "deny", `it needs the network policy "allowlist"`},
			{"private", "allowlist", "no token for git.example: there is none on this machine"},
		} {
			w.setenv("RALPH_GIT", tc.git)
			w.setenv("RALPH_NETWORK", tc.network)
			res := w.ralph(t, "--recreate", "build").expect(t, 0)
			assert.Check(t, is.Contains(res.stderr, `Warning: sandbox.git_token = "read" has no effect: `+tc.why))
		}
	})
}
