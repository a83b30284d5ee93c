package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
)

// A ralph.toml of another program is one sentence, and the hint works.
func TestForeignFile(t *testing.T) {
	for _, tc := range []struct{ name, content, message string }{
		{"tables", "[project]\nname = \"x\"\n[agent]\nmodel = \"sonnet\"\n[regent]\nmax_retries = 3\n[tui]\ncolor = \"x\"\n[git]\npush = true\n", `line 1 has the unknown table "project"`},
		{"keys", "max-iterations = 25\nagent = \"opencode\"\nspecs-dir = \"specs\"\n", `line 1 has the unknown key "max-iterations"`},
		{"below a table of ours", "[agent]\ncommand = \"claude\"\nargs = [\"-p\"]\nralph = \"RALPH.md\"\n", `line 3 has the unknown key "args" in [agent]`},
		{"some keys in common", "[agent.cursor]\npath = \"a\"\n[sandbox]\nimage = \"x\"\n[[sandbox.mounts]]\nhost = \"/\"\n[completion]\nformat = \"x\"\n", `line 1 has the unknown table "cursor" in [agent]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := write(t, "ralph.toml", tc.content)
			_, err := Load(Sources{Root: root})
			assert.ErrorContains(t, err, filepath.Join(root, "ralph.toml")+" is not a configuration of docker-ralph: "+tc.message)
			assert.Assert(t, !strings.Contains(err.Error(), "\n"), err)
			assert.Assert(t, strings.Contains(strings.Join(hint.Of(err), ""), "docker ralph config init"))

			path, err := Init(root)
			assert.NilError(t, err)
			assert.Equal(t, path, filepath.Join(root, "docker-ralph.toml"))
			e, err := Load(Sources{Root: root})
			assert.NilError(t, err)
			assert.DeepEqual(t, e.Config, defaults())
			_, err = Init(root)
			assert.ErrorContains(t, err, "docker-ralph.toml: file exists")
		})
	}
}

// Mistakes in a file of ours, or in one that no other program has, are listed.
func TestMistakesAreNotForeign(t *testing.T) {
	for _, tc := range []struct{ file, content string }{
		{"ralph.toml", "[agent]\nname = \"shell\"\ncolour = \"red\"\n"},
		{"ralph.toml", "[agnet]\nname = \"shell\"\n[sandbx]\nimage = \"x\"\n"},
		{"docker-ralph.toml", "[project]\nname = \"x\"\n"},
	} {
		_, err := Load(Sources{Root: write(t, tc.file, tc.content)})
		_, listed := errors.AsType[*FileError](err)
		assert.Assert(t, listed, "%v", err)
	}
	user := write(t, "config.toml", "[project]\nname = \"x\"\n")
	_, err := Load(Sources{UserDir: user})
	_, listed := errors.AsType[*FileError](err)
	assert.Assert(t, listed, "%v", err)
}

// A file with names of ours may belong to another program if it has others at its top level.
func TestMistakesWithTheHint(t *testing.T) {
	for _, tc := range []struct {
		name, file, content string
		hinted              bool
	}{
		{"a table beside ours", "ralph.toml", "[agent]\nname = \"shell\"\n[project]\nname = \"x\"\n", true},
		{"a key beside ours", "ralph.toml", "verbose = true\n[agent]\nname = \"shell\"\n", true},
		{"and one that is similar", "ralph.toml", "[agnet]\nname = \"shell\"\n[sandbox]\nimage = \"x\"\n[project]\nname = \"x\"\n", true},
		{"similar to ours", "ralph.toml", "[agnet]\nname = \"shell\"\n[sandbox]\nimage = \"x\"\n", false},
		{"below a table of ours", "ralph.toml", "[agent]\nname = \"shell\"\ncolour = \"red\"\n", false},
		{"our own file", "docker-ralph.toml", "[agent]\nname = \"shell\"\n[project]\nname = \"x\"\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(Sources{Root: write(t, tc.file, tc.content)})
			_, listed := errors.AsType[*FileError](err)
			assert.Assert(t, listed, "%v", err)
			assert.Equal(t, strings.Contains(strings.Join(hint.Of(err), "\n"), "if it belongs to another program, create docker-ralph.toml"), tc.hinted, "%v", err)
			assert.Equal(t, strings.Contains(err.Error(), "did you mean \"agent\"?"), strings.Contains(tc.content, "agnet"))
		})
	}
}

// A file that is not even TOML may belong to another program too, and does not prevent one of ours.
func TestBrokenFileMayBeForeign(t *testing.T) {
	root := write(t, "ralph.toml", "not toml [\n")
	_, err := Load(Sources{Root: root})
	assert.ErrorContains(t, err, "expected '=' after key")
	assert.Assert(t, len(hint.Of(err)) == 1, "%v", err)
	path, err := Init(root)
	assert.NilError(t, err)
	assert.Equal(t, path, filepath.Join(root, "docker-ralph.toml"))
	_, err = Load(Sources{Root: root})
	assert.NilError(t, err)
}

// docker-ralph.toml is read instead of ralph.toml, needs the same approval, and is no link either.
func TestOwnFileIsReadFirst(t *testing.T) {
	root := write(t, "ralph.toml", "[agent]\nmodel = \"theirs\"\n")
	own := filepath.Join(root, "docker-ralph.toml")
	assert.NilError(t, os.WriteFile(own, []byte("[sandbox]\nimage = \"x\"\n"), 0o644))
	e, err := Load(Sources{Root: root})
	assert.NilError(t, err)
	assert.Equal(t, e.Agent.Model, "")
	assert.Equal(t, len(e.Privileged), 1)
	assert.Equal(t, e.Privileged[0].Origin.Name, own)

	assert.NilError(t, os.Remove(own))
	assert.NilError(t, os.Symlink("ralph.toml", own))
	_, err = Load(Sources{Root: root})
	assert.ErrorContains(t, err, own+": symbolic links are not allowed")
}
