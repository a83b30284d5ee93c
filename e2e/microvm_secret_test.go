//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
)

// claudeSaying is a claude that runs a line of shell before it is content.
func claudeSaying(line string) string {
	return "#!/bin/sh\n" + line + "\n" + `echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"total_cost_usd":0.01,"result":"done"}'` + "\n"
}

// withClaude returns flags that choose claude, which is this program, and
// gives it something to do. The sandbox is still to be made.
func (w *world) withClaude(t *testing.T, program string) []string {
	t.Helper()
	planned := *w
	planned.setenv("CLAUDE_CODE_USE_BEDROCK", "0")
	planned.plan(t, task{ID: "a", Title: "Title"})
	planned.remove(t, planned.sandbox(t))
	assert.NilError(t, os.RemoveAll(filepath.Join(w.config, "ralph", "microvms")))
	return []string{"--agent", "claude", "--image", w.imageWith(t, "/usr/local/bin/claude", program)}
}

func TestNoSecretIsSeenWhileAMicroVMIsAtWork(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		secrets := map[string]string{}
		for _, name := range []string{"ANTHROPIC_API_KEY", "MY_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
			secrets[name] = "do-not-show-" + strings.ToLower(name) + "-of-" + filepath.Base(w.slug)
			w.setenv(name, secrets[name])
		}
		w.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
		w.setenv("AWS_REGION", "eu-test-1")
		names := []string{agentArgv}
		lengths, want := "echo", ""
		for name, value := range secrets {
			names = append(names, value)
			lengths += " ${#" + name + "}"
			want += fmt.Sprint(" ", len(value))
		}
		flags := w.withClaude(t, claudeSaying(lengths+` >lengths; touch begun; while ! test -e go; do sleep 0.05; done`))
		flags = append(flags, "--env", "MY_TOKEN", "--env", "ANTHROPIC_API_KEY")

		argvs := watchArgv(t, names...)
		build := start(t, w.docker(append(append([]string{"ralph"}, flags...), "build", "-n", "1")...))
		appears(t, filepath.Join(w.repo, "begun"))
		for _, value := range secrets {
			assert.Check(t, noFileHolds(w.dir, value))
		}
		w.write(t, filepath.Join(w.repo, "go"), "")
		res := build.wait(t).expect(t, 0)
		seen := argvs()

		assert.Equal(t, w.read(t, "lengths"), strings.TrimPrefix(want, " ")+"\n", "the agent has them all")
		assert.Assert(t, seen[agentArgv])
		for name, value := range secrets {
			assert.Check(t, !seen[value], "%s was in a command line", name)
			assert.Check(t, noFileHolds(w.dir, value))
			assert.Check(t, !strings.Contains(res.stdout+res.stderr, value), name)
		}
	})
}

// The program's proxy adds the key to requests, so it has no need to go in.
func TestTheModelsKeyStaysOnTheHost(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		const key = "sk-ant-e2e-stays-here"
		flags := w.withClaude(t, claudeSaying(`echo "key: $ANTHROPIC_API_KEY" >key`))
		build := append(flags, "build", "-n", "1")
		howTo := "Warning: ANTHROPIC_API_KEY is not set: the agent can reach its model only if it logs in by itself. Set it in your shell's start-up file"
		if w.driver == config.DriverSbx {
			howTo = `Warning: sbx has no key for anthropic: the agent can reach its model only if it logs in by itself. Store one with "sbx secret set anthropic"`
			w.setenv("ANTHROPIC_API_KEY", key) // is not what sbx has
		}
		res := w.ralph(t, build...).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, howTo))
		assert.Equal(t, w.read(t, "key"), "key: \n")

		if w.driver == config.DriverSbx {
			set := w.program("secret", "set", "anthropic")
			set.Stdin = strings.NewReader(key)
			run(t, set).expect(t, 0)
		}
		w.setenv("ANTHROPIC_API_KEY", key)
		res = w.ralph(t, build...).expect(t, 0)
		assert.Equal(t, res.stderr, "Warning: the agent has your git directory and can commit your uncommitted changes of 1 file: key\n")
		assert.Equal(t, w.read(t, "key"), "key: proxy-managed\n")

		// Unless the user says so.
		w.ok(t, append([]string{"--env", "ANTHROPIC_API_KEY"}, build...)...)
		assert.Equal(t, w.read(t, "key"), "key: "+key+"\n")
	})
}

// scriptedAWS gives other keys every time, until the session has expired.
const scriptedAWS = `#!/bin/sh
case $* in
"sts get-caller-identity")
	if test -e %[1]s/expired; then
		echo "Error when retrieving token from sso: Token has expired and refresh failed" >&2
		exit 255
	fi
	echo '{"Account": "123456789012"}' ;;
"configure export-credentials --format process")
	echo taken >>%[1]s/taken
	n=$(grep -c . %[1]s/taken)
	echo '{"Version": 1, "AccessKeyId": "AKIA'$n'", "SecretAccessKey": "secret'$n'", "SessionToken": "token'$n'"}' ;;
"configure get region") echo eu-test-1 ;;
*) exit 252 ;;
esac
`

// giveAWS puts a scripted aws program on the user's PATH, and returns its
// folder.
func (w *world) giveAWS(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(w.dir, "aws")
	program := filepath.Join(dir, "aws")
	w.write(t, program, fmt.Sprintf(scriptedAWS, dir))
	assert.NilError(t, os.Chmod(program, 0o755))
	w.own(t, dir)
	w.path(dir, true)
	return dir
}

func TestBedrockGetsFreshCredentialsWithEveryDispatch(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		aws := w.giveAWS(t)
		flags := w.withClaude(t, claudeSaying(`env | grep -E '^(AWS_|CLAUDE_CODE_USE_BEDROCK|ANTHROPIC_API_KEY)' | sort >env`))
		build := append(flags, "build", "-n", "1")
		w.setenv("CLAUDE_CODE_USE_BEDROCK", "1")

		// Before any sandbox is made it is known that it would be in vain.
		w.write(t, filepath.Join(aws, "expired"), "")
		res := w.ralph(t, build...).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: getting AWS credentials for Bedrock: the SSO session of the default profile has expired or was never started: run \"aws sso login\""))
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.NilError(t, os.Remove(filepath.Join(aws, "expired")))

		for n := 1; n <= 2; n++ {
			w.ok(t, build...)
			assert.Equal(t, w.read(t, "env"), fmt.Sprintf(`AWS_ACCESS_KEY_ID=AKIA%[1]d
AWS_DEFAULT_REGION=eu-test-1
AWS_REGION=eu-test-1
AWS_SECRET_ACCESS_KEY=secret%[1]d
AWS_SESSION_TOKEN=token%[1]d
CLAUDE_CODE_USE_BEDROCK=1
`, n))
			w.ok(t, append(flags, "task", "list")...) // has no need of them
		}
		assert.Equal(t, strings.Count(w.read(t, "../../aws/taken"), "\n"), 2)

		w.write(t, filepath.Join(aws, "expired"), "")
		w.ralph(t, build...).expect(t, 1)
		w.ok(t, append(flags, "task", "list")...)
	})
}

// Whoever writes to the repository does not get the user's AWS credentials.
func TestARepositoryCannotSwitchBedrockOn(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		w.giveAWS(t)
		w.write(t, filepath.Join(w.repo, ".claude", "settings.json"), `{"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}`)
		w.own(t, w.repo)
		build := append(w.withClaude(t, claudeSaying(`env | grep '^AWS_' >env; true`)), "build", "-n", "1")

		res := w.ralph(t, build...).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, filepath.Join(w.repo, ".claude", "settings.json")+" switches Claude to Amazon Bedrock"))
		assert.Check(t, is.Contains(res.stderr, "set CLAUDE_CODE_USE_BEDROCK=1 in the environment to agree"))
		assert.Equal(t, len(w.sandboxes(t)), 0)

		w.setenv("CLAUDE_CODE_USE_BEDROCK", "0")
		w.ok(t, build...)
		assert.Equal(t, w.read(t, "env"), "")
		w.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
		w.ok(t, build...)
		assert.Check(t, is.Contains(w.read(t, "env"), "AWS_REGION=eu-test-1\n"))
	})
}
