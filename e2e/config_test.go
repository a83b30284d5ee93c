//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
)

// The configuration is shown with its origins, created, and edited. No engine is needed.
func TestConfigurationIsShownAndEdited(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("DOCKER_HOST", "unix:///nowhere.sock")
		created := strings.TrimSpace(w.ok(t, "config", "init"))
		assert.Equal(t, filepath.Base(created), "ralph.toml")
		res := w.ralph(t, "config", "init").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "ralph.toml: file exists"))

		w.configure(t, "[agent]\nname = \"shell\"\n[env]\npass = [\"ONE\"]\n")
		res = w.ralph(t, "--cpus", "2", "config", "--format", "json").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, `Warning: privileged settings are not approved: env.pass = "ONE"`))
		var values []config.Value
		assert.NilError(t, json.Unmarshal([]byte(res.stdout), &values))
		assert.Check(t, is.Contains(values, config.Value{Key: "env.pass", Value: `["ONE"]`, Origin: created + ":4"}))
		assert.Check(t, is.Contains(values, config.Value{Key: "sandbox.resources.cpus", Value: "2", Origin: "--cpus"}))
		assert.Check(t, is.Contains(w.ok(t, "config"), "loop.idle "))

		w.setenv("VISUAL", "")
		w.setenv("EDITOR", `sed -i -e '$a [loop]' -e '$a idle = 7'`)
		assert.Check(t, is.Contains(w.shell(t, "config edit").wait(t).expect(t, 0).stdout, "Saved "))
		assert.Check(t, is.Contains(w.ok(t, "config", "--format", "{{.Key}}={{.Value}}"), "loop.idle=7\n"))
		w.setenv("EDITOR", `sed -i s/idle/idel/`)
		printed := w.shell(t, "config edit").wait(t).expect(t, 1).stdout
		assert.Check(t, is.Contains(printed, `unknown key "idel"`))
		_, dir, found := strings.Cut(printed, "your changes are in ")
		assert.Assert(t, found, printed)
		assert.NilError(t, os.RemoveAll(strings.TrimSpace(dir)))
		assert.Check(t, is.Contains(w.ok(t, "config", "--format", "{{.Key}}={{.Value}}"), "loop.idle=7\n"))
	})
}

// A dry run says what a command would do, and writes no file and creates nothing on the engine.
func TestDryRunChangesNothing(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		files := func() []string {
			var all []string
			assert.NilError(t, filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				info, err := d.Info()
				all = append(all, fmt.Sprint(path, info.Size(), info.ModTime()))
				return err
			}))
			return all
		}
		w.configure(t, initialLimits)
		before := files()
		out := w.ok(t, "--dry-run", "build", "-n", "1")
		assert.Check(t, is.Contains(out, "Scope:       "+w.slug+", branch main\n"))
		assert.Check(t, is.Contains(out, " would be created\n"))
		assert.Check(t, is.Contains(out, "Next task:   none\n"))
		assert.Check(t, is.Contains(out, "Uncommitted: 1 file: ralph.toml\n"))
		assert.Check(t, is.Contains(out, "Command:     ralph build -n 1\n"))
		assert.DeepEqual(t, files(), before)
		assert.Equal(t, len(w.containers(t)), 0)

		w.ok(t, "task", "create", "a", "Title")
		w.createSandbox(t)
		w.configure(t, otherLimits)
		before = files()
		sb := w.container(t)
		out = w.ok(t, "--dry-run", "build")
		assert.Check(t, is.Contains(out, "Next task:   a Title\n"))
		assert.Check(t, is.Contains(out, " is running, and would be changed (memory from 512MiB to 640MiB, cpus from 1.5 to 1, pids from 300 to 200)\n"))
		assert.Check(t, is.Contains(w.ok(t, "--dry-run", "--agent", "codex", "build"), ", and has to be recreated with --recreate (agent from shell to codex, "))
		assert.Check(t, is.Contains(w.ralph(t, "--dry-run", "--worktree=other", "build").expect(t, 1).stderr, `no worktree "other": the command would create it`))
		assert.Check(t, is.Contains(w.ralph(t, "--dry-run", "stop").expect(t, 1).stderr, `--dry-run does not work with "docker ralph stop"`))
		assert.Equal(t, w.ok(t, "--dry-run", "clean"), "sandbox "+w.sandbox(t).Name+"\n")
		assert.DeepEqual(t, files(), before)
		assert.DeepEqual(t, w.container(t).HostConfig, sb.HostConfig)
	})
}
