package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"

	"github.com/docker-ralph/docker-ralph/hint"
)

// source has a program that prints its version and arguments.
func source(t *testing.T, version string) Source {
	t.Helper()
	program := fs.NewFile(t, "ralph", fs.WithContent("#!/bin/sh\necho "+version+" \"$(basename \"$0\")\" \"$@\"\n"), fs.WithMode(0o755))
	return Source{Program: program.Path(), Models: []byte(`{"` + version + `":{}}`)}
}

func run(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, string(out))
	return string(out)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o644))
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	assert.NilError(t, err)
	return string(b)
}

// tree lists the files below dir with their modes and sums.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum, err := inspect(path)
		all[path[len(dir):]] = info.Mode().String() + " " + sum
		return err
	})
	assert.NilError(t, err)
	return all
}

func TestInstalledLayoutRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "in a folder")
	assert.NilError(t, Install(dir, source(t, "v1")))
	assert.Equal(t, run(t, dir, "./ralph.sh", "build", "-n", "3"), "v1 ralph.sh build -n 3\n")
	assert.Equal(t, run(t, dir, "lib/task", "list"), "v1 ralph.sh task list\n")
	assert.Equal(t, read(t, filepath.Join(dir, "models.json")), `{"v1":{}}`)
	for _, skill := range []string{"ralph-spec", "ralph-plan", "ralph-build"} {
		assert.Assert(t, cmp.Contains(read(t, filepath.Join(dir, "skills", skill, "SKILL.md")), "\nname: "+skill+"\n"))
	}

	elsewhere := t.TempDir()
	assert.NilError(t, os.Symlink(filepath.Join(dir, "hooks"), filepath.Join(elsewhere, "hooks")))
	assert.NilError(t, os.Symlink("hooks/session_end.sh", filepath.Join(elsewhere, "-end")))
	for _, command := range [][]string{
		{"bash", filepath.Join(dir, "hooks", "session_end.sh")},
		{"sh", filepath.Join(dir, "hooks", "session_end.sh")},
		{filepath.Join(dir, "hooks", "session_end.sh")},
		{"bash", "hooks/session_end.sh"},
		{"bash", "--", "-end"},
		{"./-end"},
	} {
		assert.Equal(t, run(t, elsewhere, command...), "v1 ralph.sh _hook session_end\n")
	}
	assert.Equal(t, run(t, dir, "bash", "hooks/precompact.sh"), "v1 ralph.sh _hook precompact\n")

	task := filepath.Join(dir, "lib", "task")
	assert.NilError(t, os.Symlink(task, filepath.Join(elsewhere, "other-name")))
	assert.Equal(t, run(t, elsewhere, "./other-name", "a b", "", "$c"), "v1 ralph.sh task a b  $c\n")
	assert.Assert(t, IsTask(task))
	write(t, task, "#!/bin/sh\necho mine\n") // not written through a link
	assert.Assert(t, !IsTask(task))
	assert.Equal(t, run(t, dir, "./ralph.sh", "build"), "v1 ralph.sh build\n")
}

func TestInstallIsIdempotent(t *testing.T) {
	dir, s := t.TempDir(), source(t, "v1")
	assert.NilError(t, Install(dir, s))
	before, err := os.Stat(filepath.Join(dir, Program))
	assert.NilError(t, err)
	want := tree(t, dir)
	assert.NilError(t, Install(dir, s))
	assert.DeepEqual(t, tree(t, dir), want)
	after, err := os.Stat(filepath.Join(dir, Program))
	assert.NilError(t, err)
	assert.Assert(t, os.SameFile(before, after), "the program may be running")

	assert.NilError(t, os.Remove(filepath.Join(dir, "lib", "task")))
	assert.NilError(t, Install(dir, s))
	assert.DeepEqual(t, tree(t, dir), want)
}

func TestInstallUpdatesAnOlderVersion(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, Install(dir, source(t, "v1")))
	write(t, filepath.Join(dir, "hooks", "of-mine.sh"), "mine")
	assert.NilError(t, Install(dir, source(t, "v2")))
	assert.Equal(t, run(t, dir, "lib/task"), "v2 ralph.sh task\n")
	assert.Equal(t, read(t, filepath.Join(dir, "models.json")), `{"v2":{}}`)
	write(t, filepath.Join(dir, "models.json"), "edited")
	assert.NilError(t, Install(dir, source(t, "v3")))
	assert.Equal(t, run(t, dir, "lib/task"), "v3 ralph.sh task\n")
	assert.Equal(t, read(t, filepath.Join(dir, "models.json")), "edited")
	assert.Equal(t, read(t, filepath.Join(dir, "hooks", "of-mine.sh")), "mine")
}

func TestInterruptedInstallationCanBeRepeated(t *testing.T) {
	s := source(t, "v2")
	complete := t.TempDir()
	assert.NilError(t, Install(complete, s))
	want := tree(t, complete)
	all, err := files(s)
	assert.NilError(t, err)
	for _, over := range []string{"nothing", "an older one"} {
		for n := range all {
			dir := t.TempDir()
			if over != "nothing" {
				assert.NilError(t, Install(dir, source(t, "v1")))
			}
			for _, f := range all[:n] {
				write(t, filepath.Join(dir, f.path), string(f.content))
				assert.NilError(t, os.Chmod(filepath.Join(dir, f.path), f.mode))
			}
			assert.NilError(t, Install(dir, s))
			assert.DeepEqual(t, tree(t, dir), want)
		}
	}
}

func TestCopiedLayoutRuns(t *testing.T) {
	s := source(t, "v1")
	dir := t.TempDir()
	assert.NilError(t, Install(dir, s))
	for _, how := range []string{"-r", "-rL"} {
		t.Run(how, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "copy")
			run(t, "/", "cp", how, dir, to)
			assert.Equal(t, run(t, to, "lib/task", "peek"), "v1 ralph.sh task peek\n")
			assert.Equal(t, run(t, to, "bash", "hooks/precompact.sh"), "v1 ralph.sh _hook precompact\n")
			assert.NilError(t, Install(to, source(t, "v2")))
			assert.Equal(t, run(t, to, "lib/task"), "v2 ralph.sh task\n")
			assert.Assert(t, IsTask(filepath.Join(to, "lib", "task")))
		})
	}
}

func TestInstallRefusesConflictingFiles(t *testing.T) {
	empty := func(*testing.T, string) {}
	installed := func(t *testing.T, dir string) { assert.NilError(t, Install(dir, source(t, "v1"))) }
	for _, tc := range []struct {
		name, want   string
		before, then func(t *testing.T, dir string)
	}{
		{"a checkout of the original", "refusing to overwrite ralph.sh, models.json", empty, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "ralph.sh"), "#!/bin/bash\n")
			write(t, filepath.Join(dir, "models.json"), "{}")
		}},
		{"a directory for a file", "refusing to overwrite lib/task", empty, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "lib", "task", "x"), "")
		}},
		{"another manifest", ".ralph-layout was not written by ralph", empty, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, manifestName), "my notes\n")
		}},
		{"an edited skill", "refusing to overwrite skills/ralph-plan/SKILL.md", installed, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "skills", "ralph-plan", "SKILL.md"), "edited")
		}},
		{"a replaced task program", "refusing to overwrite lib/task", installed, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "lib", "task"), "#!/bin/sh\n")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			tc.before(t, dir)
			tc.then(t, dir)
			want := tree(t, dir)
			err := Install(dir, source(t, "v2"))
			assert.ErrorContains(t, err, "installing ralph in "+dir+": ")
			assert.ErrorContains(t, err, tc.want)
			assert.DeepEqual(t, len(hint.Of(err)), 1)
			assert.DeepEqual(t, tree(t, dir), want)
		})
	}
	assert.ErrorContains(t, Install(t.TempDir(), Source{Program: "/nonexistent"}), "reading the ralph program")
}

func TestRegisterLinksSkillsAndAddsHooks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a layout")
	assert.NilError(t, Install(dir, source(t, "v1")))
	claude := fs.NewDir(t, "claude", fs.WithDir("skills", fs.WithDir("mine"), fs.WithSymlink("ralph-plan", "/old/skills/ralph-plan")))
	for range 2 {
		assert.NilError(t, Register(dir, claude.Path()))
		for _, skill := range []string{"ralph-spec", "ralph-plan", "ralph-build"} {
			target, err := os.Readlink(claude.Join("skills", skill))
			assert.NilError(t, err)
			assert.Equal(t, target, filepath.Join(dir, "skills", skill))
		}
		assert.Assert(t, cmp.Contains(read(t, claude.Join("settings.json")), `"command": "bash '`+dir+`/hooks/precompact.sh'"`))
		entries, err := os.ReadDir(claude.Join("skills"))
		assert.NilError(t, err)
		assert.Equal(t, len(entries), 4, "no temporary links")
	}
}

func TestRegisterRefusesConflictsUnchanged(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, Install(dir, source(t, "v1")))
	for _, tc := range []struct {
		name, want string
		home       *fs.Dir
	}{
		{"a skill of the user", "skills/ralph-build already exists", fs.NewDir(t, "claude",
			fs.WithDir("skills", fs.WithDir("ralph-build", fs.WithFile("SKILL.md", "mine"))))},
		{"broken settings", "settings.json is not a JSON object", fs.NewDir(t, "claude", fs.WithFile("settings.json", "{"))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tree(t, tc.home.Path())
			assert.ErrorContains(t, Register(dir, tc.home.Path()), tc.want)
			assert.DeepEqual(t, tree(t, tc.home.Path()), want)
		})
	}
}
