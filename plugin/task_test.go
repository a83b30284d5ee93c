package plugin

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// machine is a repository on a machine whose engine refuses connections.
type machine struct {
	t    *testing.T
	root string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t, t.TempDir()}
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "no.sock"))
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND", "/bin/false")
	for _, name := range []string{"RALPH_SCOPE_REPO", "RALPH_SCOPE_BRANCH", "RALPH_AGENT_ID"} {
		t.Setenv(name, "")
	}
	m.git("init", "-q", "-b", "main")
	m.git("remote", "add", "origin", "https://github.com/acme/shop.git")
	m.git("commit", "-q", "--allow-empty", "-m", "start")
	t.Chdir(m.root)
	return m
}

func (m *machine) git(args ...string) {
	m.t.Helper()
	args = append([]string{"-C", m.root, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)
	out, err := exec.CommandContext(m.t.Context(), "git", args...).CombinedOutput()
	assert.NilError(m.t, err, "%s", out)
}

// ralph runs "docker ralph ARGS" with an input, and returns its exit code and output.
func (m *machine) ralph(input string, args ...string) (code int, stdout, stderr string) {
	m.t.Helper()
	files := make([]*os.File, 3)
	for i, content := range []string{input, "", ""} {
		path := filepath.Join(m.t.TempDir(), "stream")
		assert.NilError(m.t, os.WriteFile(path, []byte(content), 0o600))
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		assert.NilError(m.t, err)
		defer func() { _ = file.Close() }()
		files[i] = file
	}
	old := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	os.Stdin, os.Stdout, os.Stderr = files[0], files[1], files[2]
	defer func() { os.Stdin, os.Stdout, os.Stderr = old[0], old[1], old[2] }()

	dockerCLI, err := command.NewDockerCli(command.WithInputStream(files[0]), command.WithOutputStream(files[1]), command.WithErrorStream(files[2]))
	assert.NilError(m.t, err)
	assert.NilError(m.t, dockerCLI.Initialize(flags.NewClientOptions()))
	interrupts := &Interrupts{ctx: m.t.Context(), lost: make(chan struct{})}
	root := NewRootCommand(dockerCLI, interrupts, "test")
	root.PersistentPreRunE = nil
	root.SetContext(m.t.Context())
	root.SetArgs(args)
	err = root.Execute()
	if status, ok := errors.AsType[cli.StatusError](err); ok {
		code, err = status.StatusCode, status.Cause
	} else if err != nil {
		code = 1
	}
	if err != nil {
		_, _ = io.WriteString(files[2], "Error: "+err.Error()+"\n")
	}
	for i, to := range []*string{&stdout, &stderr} {
		content, err := os.ReadFile(files[i+1].Name())
		assert.NilError(m.t, err)
		*to = string(content)
	}
	return code, stdout, stderr
}

func TestTaskCommandsNeedNoEngine(t *testing.T) {
	m := newMachine(t)
	assert.NilError(t, os.MkdirAll(filepath.Join(m.root, "specs", "auth"), 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(m.root, "specs", "auth", "spec.md"), nil, 0o644))
	for _, tc := range []struct {
		args           string
		input          string
		code           int
		stdout, stderr string // contain these
	}{
		{args: "task create a Title", stdout: "a\n"},
		{args: "task list", stdout: "Title"},
		{args: "task show missing", code: 2, stderr: "Error: task 'missing' not found"},
		{args: "task nonsense", code: 1, stderr: "Error: unknown command 'nonsense'"},
		{args: "task", code: 1, stderr: "Error: missing command"},
		{args: "task plan-sync", input: `{"id":"auth","t":"Log in","spec":"spec.md"}`, stdout: "inserted: 1"},
		{args: "task show auth", stdout: "auth/spec.md"},
		{args: "task edit auth", code: 1, stderr: "starting an editor: no terminal"},
		{args: "task edit missing", code: 2, stderr: "task 'missing' not found"},
		{args: "task import -", input: "- [ ] Write docs\n", stdout: "1 created, 0 updated, 0 unchanged\n"},
		{args: "task export", stdout: `{"id":"write-docs","t":"Write docs","p":2,"status":"open"}` + "\n"},
		{args: "task claim auth --agent me", stdout: "auth"},
		{args: "task ask auth Which? --option red --option blue --agent me", stdout: "asked auth\n"},
		{args: "questions", stdout: "auth: Log in\n  Which?\n  1. red\n"},
		{args: "questions --all --format json", stdout: `"sandbox": "ralph-acme-shop-main"`},
		{args: "answer auth", code: 1, stderr: "standard input is not a terminal"},
		{args: "answer auth 2", stdout: "answered auth: blue\n"},
		{args: "questions --format json", stdout: "[]\n"},
		{args: "answer auth red", code: 1, stderr: "has no open question"},
		{args: "--worktree=side --branch-name=topic task list", stderr: "Created worktree .worktrees/side"},
		{args: "--worktree=side task create b Other", stdout: "b\n"},
		{args: "task show b", code: 2, stderr: "task 'b' not found"},
		{args: "__complete answer a", stdout: ":4\n"},
		{args: "__complete task show a", stdout: "auth\tLog in\n"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, stdout, stderr := m.ralph(tc.input, strings.Fields(tc.args)...)
			assert.Check(t, is.Equal(code, tc.code), "%s%s", stdout, stderr)
			assert.Check(t, is.Contains(stdout, tc.stdout))
			assert.Check(t, is.Contains(stderr, tc.stderr))
			assert.Check(t, !strings.Contains(stderr, "no.sock"), "%s", stderr)
		})
	}
	_, err := os.Stat(filepath.Join(m.root, ".ralph"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// Attempts of a clone are refs of the user's repository.
func TestTaskShowListsAttempts(t *testing.T) {
	m := newMachine(t)
	_, _, _ = m.ralph("", "task", "create", "a/b", "Title")
	const fetched = "refs/ralph/ralph-acme-shop-main/attempts/a/b/1"
	m.git("update-ref", fetched, "HEAD")
	m.git("update-ref", "refs/ralph/ralph-acme-shop-other/attempts/a/b/1", "HEAD")
	m.git("update-ref", "refs/heads/ralph-attempts/a/b/2", "HEAD")
	code, stdout, stderr := m.ralph("", "task", "show", "a/b", "--format", "json")
	assert.Equal(t, code, 0, stderr)
	assert.Check(t, is.Contains(stdout, fetched))
	assert.Check(t, is.Contains(stdout, "refs/heads/ralph-attempts/a/b/2"))
	assert.Check(t, !strings.Contains(stdout, "other"), stdout)
}

func TestTaskCommandsHaveNoDryRun(t *testing.T) {
	d := dispatcher{options: &options{dryRun: true}}
	root, cmd := &cobra.Command{Use: "ralph"}, newTaskCommand(d)
	root.AddCommand(cmd)
	assert.Error(t, d.options.checkDryRun(cmd), `--dry-run does not work with "ralph task"`)
}
