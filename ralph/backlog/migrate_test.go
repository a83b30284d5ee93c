package backlog

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/icmd"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

func TestHostAndBacklogDeriveTheSameScope(t *testing.T) {
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	top, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	t.Chdir(top)
	icmd.RunCommand("git", "init", "-q", "-b", "main", top).Assert(t, icmd.Success)
	icmd.RunCommand("git", "remote", "add", "origin", "x").Assert(t, icmd.Success)
	for _, url := range []string{
		"https://github.com/o/r/", "https://github.com/o/r.git/", "https://github.com/o/r", "git@github.com:o/r.git",
		"git@h:/srv/git/shop.git", "file:///srv/git/shop.git", "git+ssh://h/acme/shop", "/srv/git/shop/", "https://h/o/r?token=1",
	} {
		t.Run(url, func(t *testing.T) {
			icmd.RunCommand("git", "remote", "set-url", "origin", url).Assert(t, icmd.Success)
			unset := func(string) string { return "" }
			host, err := gitrepo.Detect(t.Context(), top, unset)
			assert.NilError(t, err)
			inside, err := DetectScope(t.Context(), unset)
			assert.NilError(t, err)
			assert.Equal(t, inside, Scope(host.Scope))
		})
	}
}

func TestOpenMigratesTasksOfOtherSpellings(t *testing.T) {
	path := dbPath(t)
	old := openStore(t, path, Scope{Repo: "o/r/", Branch: "main"})
	add(t, old, "a/01", "a/02")
	claim(t, old, "a/01", "3c9e")
	add(t, openStore(t, path, Scope{Repo: "o/r/", Branch: "other"}), "c/01")
	add(t, openStore(t, path, Scope{Repo: "q/o/r", Branch: "main"}), "d/01")

	s := openStore(t, path, Scope{Repo: "o/r", Branch: "main"})
	all, err := s.List(t.Context(), Filter{})
	assert.NilError(t, err)
	assert.DeepEqual(t, slugs(all), []string{"a/01", "a/02"})
	assert.Equal(t, all[0].Assignee, "3c9e")
	assert.Equal(t, query(t, path, "SELECT count(*) FROM tasks"), "4\n")
}

func TestMigrationKeepsTasksWithTheSameSlug(t *testing.T) {
	path := dbPath(t)
	own := openStore(t, path, Scope{Repo: "o/r", Branch: "main"})
	add(t, own, "a/01")
	add(t, openStore(t, path, Scope{Repo: "o/r.git/", Branch: "main"}), "a/01", "a/02")

	again := openStore(t, path, Scope{Repo: "o/r", Branch: "main"})
	all, err := again.List(t.Context(), Filter{})
	assert.NilError(t, err)
	assert.DeepEqual(t, slugs(all), []string{"a/01", "a/02"})
	assert.Equal(t, query(t, path, "SELECT count(*) FROM tasks WHERE scope_repo = 'o/r.git/'"), "1\n")
}
