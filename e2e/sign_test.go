//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// giveKey makes an ssh key that git signs with, and an ssh-agent for it, which
// does not have it yet.
func (w *world) giveKey(t *testing.T) (key string) {
	t.Helper()
	for _, program := range []string{"ssh-agent", "ssh-keygen", "ssh-add"} {
		if _, err := exec.LookPath(program); err != nil {
			notHere(t, "git verifies signatures with the programs of openssh-client: "+err.Error())
		}
	}
	folder := filepath.Join(w.home, ".ssh")
	key = filepath.Join(folder, "id")
	assert.NilError(t, os.MkdirAll(folder, 0o700))
	run(t, w.named("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "una", "-f", key)).expect(t, 0)
	w.own(t, folder)
	w.write(t, filepath.Join(w.home, "signers"), "una@example.com "+w.readFile(t, key+".pub"))
	w.git(t, "config", "--global", "gpg.format", "ssh")
	w.git(t, "config", "--global", "user.signingKey", "~/.ssh/id.pub")
	w.git(t, "config", "--global", "gpg.ssh.allowedSignersFile", filepath.Join(w.home, "signers"))

	socket := filepath.Join(folder, "agent")
	agent := start(t, w.command("ssh-agent", "-D", "-a", socket))
	t.Cleanup(func() { _ = agent.cmd.Process.Kill() })
	appears(t, socket)
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

// askRaw is a script that has the socket of a sandbox sign a login, remove all
// keys and list them, and shows the kinds of the answers.
const askRaw = `
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
	privately(t, func(t *testing.T, w *world) {
		key := w.giveKey(t)
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

		w.write(t, filepath.Join(w.repo, "raw.pl"), askRaw)
		w.git(t, "add", "raw.pl")
		w.git(t, "commit", "-q", "-m", "A script")
		w.plan(t, task{ID: "b", Title: "Add b", Steps: []string{
			"perl raw.pl > raw.txt 2>&1; true",
			"ls -ld $(dirname $RALPH_SIGN_SOCKET) > folder.txt; touch $(dirname $RALPH_SIGN_SOCKET)/x 2>> folder.txt; echo \"sock=$SSH_AUTH_SOCK\" >> folder.txt",
		}})
		res = w.ralph(t, "--sign", "--recreate", "build").expect(t, 0)
		assert.Equal(t, last(), "G una@example.com Add b\n", res.stdout+res.stderr)
		verified("verify-commit", "HEAD")
		assert.Check(t, is.Contains(w.read(t, "folder.txt"), "drwx------"))
		assert.Check(t, is.Contains(w.read(t, "folder.txt"), "Read-only file system"))
		assert.Check(t, is.Contains(w.read(t, "folder.txt"), "sock=\n"))
		assert.Check(t, is.Equal(w.read(t, "raw.txt"), "5 5 12"), "refused, refused, and the one key")
		sockets, err := filepath.Glob(filepath.Join(w.config, "ralph", "sign", "*", "*"))
		assert.NilError(t, err)
		assert.Check(t, is.Len(sockets, 0), "it ends with its command")

		// A command without an agent takes the sandbox as it is.
		made := w.container(t).ID
		w.ok(t, "task", "list")
		assert.Equal(t, w.container(t).ID, made)

		// An agent that does not sign makes the commit fail, and nothing else.
		w.plan(t, task{ID: "c", Title: "Add c", Steps: []string{
			"echo c > c.txt; touch begun; while ! test -e go; do sleep 0.1; done; git add c.txt; git commit -qm 'Only c' 2> failed.txt; true",
			"rm -f begun go c.txt; git config user.name >/dev/null; git -c commit.gpgSign=false commit -qam 'Unsigned' --allow-empty",
		}})
		build := start(t, w.docker("ralph", "--sign", "build", "-n", "1"))
		appears(t, filepath.Join(w.repo, "begun"))
		run(t, w.named("ssh-add", "-q", "-D")).expect(t, 0)
		w.write(t, filepath.Join(w.repo, "go"), "")
		build.wait(t)
		assert.Check(t, is.Contains(w.read(t, "failed.txt"), "your ssh-agent did not sign"))

		// What a sandbox for one command had goes with it.
		run(t, w.named("ssh-add", "-q", key)).expect(t, 0)
		w.plan(t, task{ID: "d", Title: "Add d", Steps: []string{"echo d > d.txt"}})
		w.configureUser(t, "[sandbox]\nreuse_container = false\nsign = true\n")
		res = w.ralph(t, "build", "-n", "1").expect(t, 0)
		assert.Equal(t, last(), "G una@example.com Add d\n", res.stdout+res.stderr)
		folders, err := filepath.Glob(filepath.Join(w.config, "ralph", "sign", "*"))
		assert.NilError(t, err)
		assert.Check(t, is.Len(folders, 1), "that of the sandbox which stays")
	})
}

// A repository cannot ask for signatures by itself, and without a git directory
// of its own a sandbox gets none.
func TestWhereCommitsAreNotSigned(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.plan(t)
		w.setenv("RALPH_GIT", "direct")
		res := w.ralph(t, "--recreate", "--sign", "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, `Warning: sandbox.sign has no effect, and commits are not signed: it needs sandbox.git = "private"`))

		w.setenv("RALPH_GIT", "private")
		w.setenv("SSH_AUTH_SOCK", "")
		res = w.ralph(t, "--sign", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `git config --global gpg.format ssh`))

		w.configure(t, "[sandbox]\nsign = true\n")
		res = w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `privileged settings are not approved: sandbox.sign = "true" (`))
	})
}
