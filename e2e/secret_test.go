//go:build unix

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

func TestVariablesReachTheAgentByName(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		for _, name := range []string{"FROM_FILE", "FROM_LIST_1", "FROM_LIST_2", "FROM_FLAG", "NOT_NAMED", "ANTHROPIC_API_KEY"} {
			w.setenv(name, "value of\n"+name)
		}
		w.setenv("RALPH_DOCKER_ENV", " FROM_LIST_1 , FROM_LIST_2,NOT_SET")
		w.configure(t, "[env]\npass = [\"FROM_FILE\"]\n")

		res := w.ralph(t, "task", "list").expect(t, 1)
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

// fakeClaude says in a file whether it has the key, and waits to be looked
// at.
const fakeClaude = `#!/bin/sh
echo "${#ANTHROPIC_API_KEY} characters" > key
touch begun
while ! test -e go; do sleep 0.05; done
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"total_cost_usd":0.01,"result":"done"}'
`

// The key of the agent's model is for the agent alone, and stands nowhere but
// in its environment.
func TestTheModelsKeyIsSeenByTheAgentOnly(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const key = "sk-ant-e2e-0123456789abcdef-do-not-show"
		image := w.imageWith(t, "/usr/local/bin/claude", fakeClaude)
		w.setenv("ANTHROPIC_API_KEY", key)
		flags := []string{"ralph", "--agent", "claude", "--image", image}
		argvs := watchArgv(t, key, agentArgv)

		// A command of the backlog does without.
		sync := w.docker(append(flags, "task", "plan-sync")...)
		input, feed := io.Pipe()
		sync.Stdin = input
		syncing := start(t, sync)
		var environ string
		eventually(t, func() error {
			environ = w.environments(t)
			if !strings.Contains(environ, "RALPH_DISPATCH=") {
				return errors.New("the command does not run yet")
			}
			return nil
		})
		_, err := io.WriteString(feed, `{"id":"a","t":"Title"}`+"\n")
		assert.NilError(t, err)
		assert.NilError(t, feed.Close())
		syncing.wait(t).expect(t, 0)
		assert.Assert(t, !strings.Contains(environ, key), "ralph task got the key")

		for _, command := range []string{"plan", "build"} {
			agent := start(t, w.docker(append(flags, command, "-n", "1")...))
			appears(t, filepath.Join(w.repo, "begun"))
			assert.Check(t, is.Contains(w.environments(t), "ANTHROPIC_API_KEY="+key))
			w.write(t, filepath.Join(w.repo, "go"), "")
			res := agent.wait(t).expect(t, 0)
			assert.Equal(t, w.read(t, "key"), fmt.Sprintf("%d characters\n", len(key)), command)
			assert.Check(t, !strings.Contains(res.stdout+res.stderr, key))
			for _, name := range []string{"begun", "go", "key"} {
				assert.NilError(t, os.Remove(filepath.Join(w.repo, name)))
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
		if w.micro() {
			w.leaveDouble(t)
			// What sbx was given has a name of its own.
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
	res := run(t, w.docker("exec", "--user", fmt.Sprintf("%d:%d", w.uid, w.gid), all[0].ID, "sh", "-c", `for e in /proc/[0-9]*/environ; do tr '\0' '\n' <$e; done 2>/dev/null; true`))
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
