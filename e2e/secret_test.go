//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// Secrets: the sandbox's own, and what the host passes to microVMs.

func TestEnvironmentVariablesArePassedByName(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		for _, name := range []string{"FROM_FILE", "FROM_LIST_1", "FROM_LIST_2", "FROM_FLAG", "NOT_NAMED", "ANTHROPIC_API_KEY"} {
			w.setenv(name, "value of\n"+name)
		}
		w.setenv("RALPH_DOCKER_ENV", " FROM_LIST_1 , FROM_LIST_2,NOT_SET")
		w.configure(t, "[env]\npass = [\"FROM_FILE\"]\n")

		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Check(t, is.Contains(res.stderr, "docker ralph trust"))

		w.ok(t, "trust", "--force")
		w.plan(t, task{ID: "a", Title: "Show the environment", Steps: []string{"env -0 | tr '\\n\\0' '_\\n' > env"}})
		w.ok(t, "--env", "FROM_FLAG", "build")
		env := "\n" + w.read(t, "env")
		for _, name := range []string{"FROM_FILE", "FROM_LIST_1", "FROM_LIST_2", "FROM_FLAG"} {
			assert.Check(t, is.Contains(env, "\n"+name+"=value of_"+name+"\n"))
		}
		// The shell agent needs no model, so it gets no key.
		for _, name := range []string{"NOT_NAMED", "ANTHROPIC_API_KEY", "NOT_SET"} {
			assert.Check(t, !strings.Contains(env, "\n"+name+"="), name)
		}
	})
}

// agentArgv is in the command line of claude, inside the sandbox.
const agentArgv = "--output-format=stream-json"

// fakeClaude writes the length of its key, and waits to be inspected.
const fakeClaude = `#!/bin/sh
echo "${#ANTHROPIC_API_KEY} characters" > key
touch begun
while ! test -e go; do sleep 0.05; done
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"total_cost_usd":0.01,"result":"done"}'
`

// The key of the agent's model is in the agent's environment, and nowhere else.
func TestModelKeyIsOnlyInTheAgentsEnvironment(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		const key = "sk-ant-e2e-0123456789abcdef-do-not-show"
		w.ignore(t, "begun", "go", "key")
		image := w.imageWith(t, "/usr/local/bin/claude", fakeClaude)
		w.setenv("ANTHROPIC_API_KEY", key)
		flags := []string{"ralph", "--agent", "claude", "--image", image}
		argvs := watchArgv(t, key, agentArgv)

		w.ok(t, "task", "create", "a", "Title")
		for _, command := range []string{"plan", "build"} {
			agent := start(t, w.docker(append(flags, command, "-n", "1")...))
			waitForFile(t, w.pathInside(t, "begun"))
			assert.Check(t, is.Contains(w.environments(t), "ANTHROPIC_API_KEY="+key))
			w.write(t, w.pathInside(t, "go"), "")
			res := agent.wait(t).expect(t, 0)
			assert.Equal(t, w.readFile(t, w.pathInside(t, "key")), fmt.Sprintf("%d characters\n", len(key)), command)
			assert.Check(t, !strings.Contains(res.stdout+res.stderr, key))
			for _, name := range []string{"begun", "go", "key"} {
				assert.NilError(t, os.Remove(w.pathInside(t, name)))
			}
		}

		assert.DeepEqual(t, argvs(), map[string]bool{key: false, agentArgv: true})
		sandbox := w.container(t)
		for _, args := range [][]string{{"inspect", sandbox.ID}, {"inspect", image}, {"logs", sandbox.ID}} {
			res := run(t, w.docker(args...)).expect(t, 0)
			assert.Check(t, !strings.Contains(res.stdout+res.stderr, key), "%q", args)
		}
		for _, m := range sandbox.Mounts {
			if m.Name != "" {
				res := run(t, w.docker("volume", "inspect", m.Name)).expect(t, 0)
				assert.Check(t, !strings.Contains(res.stdout, key), m.Name)
			}
		}
		assert.NilError(t, noFileHolds(w.dir, key))
	})
}

// imageWith makes an image that is the base image and one program.
func (w *world) imageWith(t *testing.T, path, program string) string {
	t.Helper()
	return w.imageOf(t, map[string]string{path: program})
}

// imageOf makes an image that is the base image and some programs. Its user
// may install others.
func (w *world) imageOf(t *testing.T, programs map[string]string) string {
	t.Helper()
	image := "ralph-e2e-" + filepath.Base(w.slug) + ":latest"
	id := strings.TrimSpace(run(t, w.docker("create", "--label", labelPrefix+"scope.repo="+w.slug, engines.BaseImage(), "chmod", "777", "/opt", "/usr/local/bin")).expect(t, 0).stdout)
	run(t, w.docker("start", "--attach", id)).expect(t, 0)
	t.Cleanup(func() {
		if w.isMicroVM() {
			w.purgeFake(t)
			// The image in sbx has another name.
			given := run(t, w.docker("images", "-q", "--no-trunc", image)).stdout
			given = strings.TrimPrefix(strings.TrimSpace(given), "sha256:")
			run(t, w.docker("rmi", "-f", "docker-ralph/sandbox:"+given[:min(12, len(given))]))
		}
		w.removeContainers(t)
		run(t, w.docker("rm", "-f", id))
		run(t, w.docker("rmi", "-f", image))
	})
	for path, program := range programs {
		file := filepath.Join(w.dir, filepath.Base(path))
		w.write(t, file, program)
		assert.NilError(t, os.Chmod(file, 0o755))
		run(t, w.docker("cp", file, id+":"+path)).expect(t, 0)
	}
	run(t, w.docker("commit", id, image)).expect(t, 0)
	return image
}

// environments returns the environments of all processes of the user in the
// sandbox; empty while there is none.
func (w *world) environments(t *testing.T) string {
	t.Helper()
	all := w.sandboxes(t)
	if len(all) != 1 {
		return ""
	}
	res := run(t, w.docker("exec", "--user", w.insideUser(), all[0].ID, "sh", "-c", `for e in /proc/[0-9]*/environ; do tr '\0' '\n' <$e; done 2>/dev/null; true`))
	return res.stdout
}

// noFileHolds is an error when a file below dir holds the secret.
func noFileHolds(dir, secret string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil && bytes.Contains(content, []byte(secret)) {
			err = fmt.Errorf("%s holds the secret", path)
		}
		return err
	})
}

// claudeRunning is a claude that runs a line of shell and succeeds.
func claudeRunning(line string) string {
	return "#!/bin/sh\n" + line + "\n" + `echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"total_cost_usd":0.01,"result":"done"}'` + "\n"
}

// withClaude returns flags that choose claude, which is this program, and plans a task.
// The sandbox does not exist yet.
func (w *world) withClaude(t *testing.T, program string) []string {
	t.Helper()
	w.plan(t, task{ID: "a", Title: "Title"})
	return []string{"--agent", "claude", "--image", w.imageWith(t, "/usr/local/bin/claude", program)}
}

func TestMicroVMSecretsAreInNoCommandLineOrFile(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.ignore(t, "lengths")
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
		flags := w.withClaude(t, claudeRunning(lengths+` >lengths; touch begun; while ! test -e go; do sleep 0.05; done`))
		flags = append(flags, "--env", "MY_TOKEN", "--env", "ANTHROPIC_API_KEY")

		argvs := watchArgv(t, names...)
		build := start(t, w.docker(append(append([]string{"ralph"}, flags...), "build", "-n", "1")...))
		waitForFile(t, w.pathInside(t, "begun"))
		for _, value := range secrets {
			assert.Check(t, noFileHolds(w.dir, value))
		}
		w.write(t, w.pathInside(t, "go"), "")
		res := build.wait(t).expect(t, 0)
		seen := argvs()

		assert.Equal(t, w.readFile(t, w.pathInside(t, "lengths")), strings.TrimPrefix(want, " ")+"\n", "the agent has them all")
		assert.Assert(t, seen[agentArgv])
		for name, value := range secrets {
			assert.Check(t, !seen[value], "%s was in a command line", name)
			assert.Check(t, noFileHolds(w.dir, value))
			assert.Check(t, !strings.Contains(res.stdout+res.stderr, value), name)
		}
	})
}

// The program's proxy adds the key to requests, so it has no need to go in.
func TestModelKeyStaysOnTheHostOfAMicroVM(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		const key = "sk-ant-e2e-stays-here"
		w.ignore(t, "key")
		flags := w.withClaude(t, claudeRunning(`echo "key: $ANTHROPIC_API_KEY" >key`))
		build := append(flags, "build", "-n", "1")
		howTo := "Warning: ANTHROPIC_API_KEY is not set: the agent has to log in by itself\nHint: set it in your shell's startup file"
		if w.driver == config.DriverSbx {
			howTo = "Warning: sbx has no key for anthropic: the agent has to log in by itself\nHint: store one with \"sbx secret set anthropic\"\n"
			w.setenv("ANTHROPIC_API_KEY", key) // is not what sbx has
		}
		res := w.ralph(t, build...).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, howTo))
		assert.Equal(t, w.readFile(t, w.pathInside(t, "key")), "key: \n")

		if w.driver == config.DriverSbx {
			set := w.microVMCommand("secret", "set", "anthropic")
			set.Stdin = strings.NewReader(key)
			run(t, set).expect(t, 0)
		}
		w.setenv("ANTHROPIC_API_KEY", key)
		w.write(t, filepath.Join(w.repo, "mine"), "")
		res = w.ralph(t, build...).expect(t, 0)
		changes := "Warning: the agent works on your files and can commit your uncommitted changes in 1 file: mine\n"
		if w.hasClone() {
			changes = "Warning: the sandbox does not have your uncommitted changes in 1 file: mine\nHint: commit them, or pass --with-changes\n"
		}
		assert.Equal(t, res.stderr, changes)
		assert.Equal(t, w.readFile(t, w.pathInside(t, "key")), "key: proxy-managed\n")

		// Unless the user passes it.
		w.ok(t, append([]string{"--env", "ANTHROPIC_API_KEY"}, build...)...)
		assert.Equal(t, w.readFile(t, w.pathInside(t, "key")), "key: "+key+"\n")
	})
}

// scriptedAWS returns other keys every time, until the session has expired.
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

// installAWS puts a scripted aws program on the user's PATH, and returns its
// folder.
func (w *world) installAWS(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(w.dir, "aws")
	program := filepath.Join(dir, "aws")
	w.write(t, program, fmt.Sprintf(scriptedAWS, dir))
	assert.NilError(t, os.Chmod(program, 0o755))
	w.chown(t, dir)
	w.setPath(dir, true)
	return dir
}

func TestBedrockCredentialsAreRefreshedForEachCommand(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		aws := w.installAWS(t)
		w.ignore(t, "env")
		flags := w.withClaude(t, claudeRunning(`env | grep -E '^(AWS_|CLAUDE_CODE_USE_BEDROCK|ANTHROPIC_API_KEY)' | sort >env`))
		build := append(flags, "build", "-n", "1")
		w.setenv("CLAUDE_CODE_USE_BEDROCK", "1")

		// The error precedes the creation of a sandbox.
		w.write(t, filepath.Join(aws, "expired"), "")
		res := w.ralph(t, build...).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: getting AWS credentials for Bedrock: the SSO session of the default profile has expired or was never started\nHint: run \"aws sso login\""))
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.NilError(t, os.Remove(filepath.Join(aws, "expired")))

		for n := 1; n <= 2; n++ {
			w.ok(t, build...)
			assert.Equal(t, w.readFile(t, w.pathInside(t, "env")), fmt.Sprintf(`AWS_ACCESS_KEY_ID=AKIA%[1]d
AWS_DEFAULT_REGION=eu-test-1
AWS_REGION=eu-test-1
AWS_SECRET_ACCESS_KEY=secret%[1]d
AWS_SESSION_TOKEN=token%[1]d
CLAUDE_CODE_USE_BEDROCK=1
`, n))
		}
		assert.Equal(t, strings.Count(w.read(t, "../../aws/taken"), "\n"), 2)

		w.write(t, filepath.Join(aws, "expired"), "")
		w.ralph(t, build...).expect(t, 1)
	})
}

// Settings of the repository do not expose the user's AWS credentials.
func TestRepositoryCannotEnableBedrock(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.installAWS(t)
		w.ignore(t, "env")
		w.write(t, filepath.Join(w.repo, ".claude", "settings.json"), `{"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}`)
		w.chown(t, w.repo)
		build := append(w.withClaude(t, claudeRunning(`env | grep '^AWS_' >env; true`)), "build", "-n", "1")

		res := w.ralph(t, build...).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, filepath.Join(w.repo, ".claude", "settings.json")+" switches Claude to Amazon Bedrock"))
		assert.Check(t, is.Contains(res.stderr, "allow it with CLAUDE_CODE_USE_BEDROCK=1 in the environment"))
		assert.Equal(t, len(w.sandboxes(t)), 0)

		w.setenv("CLAUDE_CODE_USE_BEDROCK", "0")
		w.ok(t, build...)
		assert.Equal(t, w.readFile(t, w.pathInside(t, "env")), "")
		w.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
		w.ok(t, build...)
		assert.Check(t, is.Contains(w.readFile(t, w.pathInside(t, "env")), "AWS_REGION=eu-test-1\n"))
	})
}
