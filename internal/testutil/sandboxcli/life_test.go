package sandboxcli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestSandboxLifecycle(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		assert.Equal(t, len(r.list(t)), 0)
		extra := r.folder(t, "extra")
		r.ok(t, "create", "--name", "box", "shell", r.ws, extra+":ro")
		list := r.list(t)
		assert.Equal(t, len(list), 1)
		assert.DeepEqual(t, list[0], item{
			Name: "box", Agent: "shell", Status: "running", Workspaces: []string{r.ws, extra + ":ro"},
			ID: list[0].ID, CreatedAt: list[0].CreatedAt,
		})
		assert.Equal(t, list[0].ID == "", r.plugin)

		r.ok(t, "exec", "box", "sh", "-c", "echo kept > ~/file; echo made > here")
		assert.Assert(t, exists(filepath.Join(r.ws, "here")), "the work tree is the host's")
		sleep := fmt.Sprintf("sleep 1000.%d", time.Now().UnixNano())
		r.ok(t, "exec", "box", "sh", "-c", "("+sleep+" &) >/dev/null 2>&1")
		eventually(t, func() bool { return runs(t, sleep) == 1 })
		r.ok(t, "stop", "box")
		assert.Equal(t, r.status(t, "box"), "stopped")
		r.ok(t, "stop", "box")
		assert.Equal(t, runs(t, sleep), 0)
		assert.Equal(t, r.ok(t, "exec", "box", "sh", "-c", "cat ~/file"), "kept\n")
		assert.Equal(t, r.status(t, "box"), "running", "exec starts it")

		r.ok(t, "stop", "box")
		id := strings.TrimSpace(r.ok(t, "run", "-d", "--name", "box", "shell", r.ws))
		assert.Assert(t, list[0].ID == id || r.plugin)
		assert.Equal(t, r.status(t, "box"), "running")

		if r.plugin {
			r.ok(t, "rm", "box")
		} else {
			r.ok(t, "rm", "--force", "box")
		}
		assert.Equal(t, len(r.list(t)), 0)
		r.create(t, "box")
		assert.Equal(t, r.run(t, "", "exec", "box", "sh", "-c", "test -e ~/file").code, 1, "the home went with the sandbox")
	})
}

func TestExec(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		for _, code := range []int{0, 1, 3, 126, 127, 255} {
			assert.Equal(t, r.run(t, "", "exec", "box", "sh", "-c", fmt.Sprint("exit ", code)).code, code)
		}
		assert.Equal(t, r.run(t, "", "exec", "box", "sh", "-c", "kill -9 $$").code, 137)
		res := r.run(t, "", "exec", "box", "--", "sh", "-c", "echo out; echo err >&2; pwd; echo $USER")
		assert.DeepEqual(t, []string{res.out, res.err}, []string{"out\n" + r.ws + "\nagent\n", "err\n"})

		args := []string{" a  b ", "it's \"q\"", "two\nlines", "--", "-x", "$HOME `id` \\", "日本🐳", "*"}
		out := r.ok(t, append([]string{"exec", "box", "printf", "<%s>"}, args...)...)
		assert.Equal(t, out, "<"+strings.Join(args, "><")+">")

		big := strings.Repeat("0123456789abcde\n", 1<<16)
		assert.Assert(t, r.run(t, big, "exec", "-i", "box", "cat").out == big)
		assert.Equal(t, r.run(t, "x", "exec", "box", "cat").out == "x", !r.plugin, "without -i")

		cmd := r.command(t, "exec", "-e", "COPIED", "-e", "SET=a b", "-e", "ABSENT_X", "-w", "/", "box", "sh", "-c",
			"echo $COPIED/$SET/${ABSENT_X-unset}/$PWD/${SSH_AUTH_SOCK-none}")
		cmd.Env = append(cmd.Env, "COPIED=c")
		agent := "/run/ssh-agent.sock"
		if r.plugin {
			agent = "none"
		}
		assert.Equal(t, finish(t, cmd).out, "c/a b/unset///"+agent+"\n")
		vm := r.ok(t, "exec", "box", "sh", "-c", "echo $SANDBOX_VM_ID")
		assert.Equal(t, vm != "\n", r.plugin)
	})
}

func TestExecOfAMissingProgram(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		for _, args := range [][]string{{"box", "no-such-program"}, {"box", "/no/such"}, {"-w", "/no/such", "box", "true"}} {
			res := r.run(t, "", append([]string{"exec"}, args...)...)
			assert.Check(t, is.Equal(res.code, 127), "%q", args)
			assert.Check(t, strings.HasPrefix(res.out, "OCI runtime exec failed: "), "%q", res.out)
			assert.Check(t, strings.HasSuffix(res.out, "\r\n"), "%q", res.out)
			assert.Check(t, is.Equal(res.err, ""))
		}
	})
}

func TestFilesBelongToTheCaller(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		r.ok(t, "exec", "box", "sh", "-c", "touch file; chmod 700 file")
		made, err := os.Stat(filepath.Join(r.ws, "file"))
		assert.NilError(t, err)
		folder, err := os.Stat(filepath.Join(r.Dir))
		assert.NilError(t, err)
		assert.Equal(t, owner(t, made), owner(t, folder), "root's test runs process mode as nobody")
	})
}

func TestReadOnlyWorkspace(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		if r.plugin || !strings.Contains(t.Name(), "container") {
			t.Skip("process mode protects nothing")
		}
		extra := r.folder(t, "extra")
		r.ok(t, "create", "--name", "box", "shell", r.ws, extra+":ro")
		assert.Equal(t, r.run(t, "", "exec", "box", "touch", extra+"/x").code, 1)
		r.ok(t, "exec", "box", "touch", r.ws+"/x")
	})
}

func TestConcurrentCreates(t *testing.T) {
	t.Parallel()
	bothCLIs(t, func(t *testing.T, r fixture) {
		var wg sync.WaitGroup
		codes := make([]int, 8)
		for i := range codes {
			wg.Go(func() { codes[i] = r.run(t, "", "create", "--name", "box", "shell", r.ws).code })
		}
		wg.Wait()
		made := 0
		for _, code := range codes {
			if code == 0 {
				made++
			}
		}
		assert.Equal(t, made, 1)
	})
}

func TestInspect(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.create(t, "box")
	var got struct {
		Name, State, Workspace string
		Status                 *string
		Sessions               int
	}
	assert.NilError(t, json.Unmarshal([]byte(r.ok(t, "inspect", "--json", "box")), &got))
	assert.Equal(t, got.Name+" "+got.State+" "+got.Workspace, "box running "+r.ws)
	assert.Assert(t, got.Status == nil, "the key is state")
	assert.Equal(t, got.Sessions, 0)
}

func TestStoredEnvironment(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	file := filepath.Join(r.ws, "env")
	assert.NilError(t, os.WriteFile(file, []byte("# comment\nA=file\nB=file\n\n"), 0o644))
	r.create(t, "box", "--env-file", file, "-e", "A=flag")
	assert.Equal(t, r.ok(t, "exec", "-e", "C=exec", "box", "sh", "-c", "echo $A $B $C"), "flag file exec\n")
	assert.Equal(t, r.ok(t, "exec", "-e", "A=exec", "box", "sh", "-c", "echo $A $B $C"), "exec file\n")
}

func TestRun(t *testing.T) {
	t.Parallel()
	bothCLIs(t, func(t *testing.T, r fixture) {
		res := r.run(t, "echo $0; exit 5\n", "run", "--name", "box", "shell", r.ws)
		assert.Equal(t, res.code, 5, "%s", res.err)
		assert.Equal(t, res.out, "bash\n")
		assert.Equal(t, r.run(t, "", "run", "box", "--", "-c", "exit 6").code, 6)
		assert.Equal(t, r.run(t, "", "run", "nobody").code, 1)
	})
}
