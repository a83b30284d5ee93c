package backlog

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/icmd"
)

// stubGit puts a git program on PATH that runs the given cases, and exits with 3
// for all other arguments.
func stubGit(t *testing.T, cases string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in\n" + cases + "\n*) echo \"unexpected: $*\" >&2; exit 3;;\nesac\n"
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":/bin:/usr/bin")
}

const (
	stubInside = "'rev-parse --is-inside-work-tree') echo true;;\n"
	stubRemote = "'remote get-url origin') echo git@github.com:acme/shop.git;;\n"
	stubBranch = "'branch --show-current') echo feature/x;;\n"
)

func TestDetectScope(t *testing.T) {
	for _, tc := range []struct {
		name, git, err string
		env            map[string]string
		want           Scope
	}{
		{name: "git", git: stubInside + stubRemote + stubBranch, want: Scope{"acme/shop", "feature/x"}},
		{name: "both from the environment", git: "", env: map[string]string{"RALPH_SCOPE_REPO": "r", "RALPH_SCOPE_BRANCH": "b"}, want: Scope{"r", "b"}},
		{name: "repo from the environment", git: stubInside + stubBranch, env: map[string]string{"RALPH_SCOPE_REPO": "r"}, want: Scope{"r", "feature/x"}},
		{name: "branch from the environment", git: stubInside + stubRemote, env: map[string]string{"RALPH_SCOPE_BRANCH": "b"}, want: Scope{"acme/shop", "b"}},
		{name: "no repository", git: stubRemote + stubBranch, err: "not inside a git repository. Run: git init"},
		{name: "bare repository", git: "'rev-parse --is-inside-work-tree') echo false;;\n" + stubRemote + stubBranch, err: "not inside a git repository. Run: git init"},
		{name: "no origin", git: stubInside + stubBranch, err: `no git remote "origin" found. Run: git remote add origin <url>`},
		{
			name: "origin without a path", git: stubInside + "'remote get-url origin') echo https://h;;\n" + stubBranch,
			err: `git remote "origin": no path`,
		},
		{name: "detached", git: stubInside + stubRemote + "'branch --show-current') ;;\n", err: "detached HEAD state. Run: git checkout <branch>"},
		{name: "git answers main to everything", git: "*) echo main;;", want: Scope{"main", "main"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stubGit(t, tc.git)
			scope, err := DetectScope(t.Context(), func(name string) string { return tc.env[name] })
			if tc.err != "" {
				assert.Error(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, scope, tc.want)
		})
	}
}

func TestMissingGitIsReported(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Locate(t.Context())
	assert.ErrorContains(t, err, "git is not installed")
	_, err = DetectScope(t.Context(), func(string) string { return "" })
	assert.ErrorContains(t, err, "git is not installed")
}

func TestLocate(t *testing.T) {
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	top, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	t.Chdir(top)
	_, err = Locate(t.Context())
	assert.Error(t, err, "not inside a git repository. Run: git init")

	icmd.RunCommand("git", "init", "-q", top).Assert(t, icmd.Success)
	sub := filepath.Join(top, "a", "b")
	assert.NilError(t, os.MkdirAll(sub, 0o755))
	t.Chdir(sub)
	path, err := Locate(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, path, filepath.Join(top, ".ralph", "tasks.db"))

	t.Chdir(filepath.Join(top, ".git"))
	_, err = Locate(t.Context())
	assert.Error(t, err, "not inside a git repository. Run: git init")
}

func TestLocateWithARelativeTopLevel(t *testing.T) {
	stubGit(t, "*) echo main;;")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	t.Chdir(dir)
	path, err := Locate(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, path, filepath.Join(dir, "main", ".ralph", "tasks.db"))
	openStore(t, path, testScope())
}

func TestDubiousOwnershipIsReported(t *testing.T) {
	stubGit(t, "*) echo \"fatal: detected dubious ownership in repository at '/w'\" >&2; exit 128;;")
	_, err := Locate(t.Context())
	assert.ErrorContains(t, err, "detected dubious ownership")
	_, err = DetectScope(t.Context(), func(string) string { return "" })
	assert.ErrorContains(t, err, "detected dubious ownership")
}
