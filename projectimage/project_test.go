package projectimage

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

const plainLayer = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\nRUN true\nUSER agent\n"

// fixedTime is another time than that of any file of these tests.
var fixedTime = time.Unix(1_000_000_000, 0)

// newProject makes a main work tree with files in .agent-loop.
func newProject(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "shop")
	assert.NilError(t, os.MkdirAll(filepath.Join(root, projectFolder), 0o755))
	for name, content := range files {
		writeFile(t, projectPath(root, name), content)
	}
	return root
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o644))
}

func findProject(t *testing.T, root string) Project {
	t.Helper()
	p, found, err := FindProject(t.Context(), root)
	assert.NilError(t, err)
	assert.Assert(t, found)
	return p
}

func TestFindProject(t *testing.T) {
	for _, tc := range []struct {
		name, file, dockerfile string
		files                  map[string]string
		notes                  int
	}{
		{name: "nothing"},
		{name: "other files", files: map[string]string{"notes": "x"}},
		{name: "no packages", files: map[string]string{dependenciesFile: "# none yet\n"}},
		{
			name: "dependencies", files: map[string]string{dependenciesFile: "jq # x\n"}, file: dependenciesFile,
			dockerfile: string(generateDockerfile([]Package{{"jq", 1}})),
		},
		{name: "Dockerfile", files: map[string]string{sandboxDockerfile: plainLayer}, file: sandboxDockerfile, dockerfile: plainLayer},
		{
			name: "both", files: map[string]string{sandboxDockerfile: plainLayer, dependenciesFile: "not a package list"}, file: sandboxDockerfile,
			dockerfile: plainLayer, notes: 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := newProject(t, tc.files)
			p, found, err := FindProject(t.Context(), root)
			assert.NilError(t, err)
			assert.Equal(t, found, tc.file != "")
			if found {
				assert.Equal(t, p.File, projectPath(root, tc.file))
				assert.Equal(t, string(p.Dockerfile), tc.dockerfile)
				assert.Assert(t, cmp.Len(p.Notes, tc.notes))
			}
		})
	}
	t.Run("no folder", func(t *testing.T) {
		_, found, err := FindProject(t.Context(), t.TempDir())
		assert.NilError(t, err)
		assert.Assert(t, !found)
	})
}

func TestFindProjectRefuses(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	writeFile(t, secret, "password")
	for _, tc := range []struct {
		name, want string
		make       func(t *testing.T, path string)
	}{
		{"link out of the repository", "it is a symbolic link, which may only lead to another file in .agent-loop", func(t *testing.T, path string) {
			assert.NilError(t, os.Symlink(secret, path))
		}},
		{"link within the repository", "it is a symbolic link, which may only lead to another file in .agent-loop", func(t *testing.T, path string) {
			writeFile(t, filepath.Join(filepath.Dir(path), "../.git/config"), "token")
			assert.NilError(t, os.Symlink("../.git/config", path))
		}},
		{"link to nowhere", "it is a symbolic link, which may only", func(t *testing.T, path string) {
			assert.NilError(t, os.Symlink("nowhere", path))
		}},
		{"named pipe", "it is a named pipe, where a file is expected", func(t *testing.T, path string) {
			assert.NilError(t, unix.Mkfifo(path, 0o644))
		}},
		{"link to a named pipe", "it is a named pipe, where a file is expected", func(t *testing.T, path string) {
			assert.NilError(t, unix.Mkfifo(filepath.Join(filepath.Dir(path), "pipe"), 0o644))
			assert.NilError(t, os.Symlink("pipe", path))
		}},
		{"socket", "it is a socket, where a file is expected", func(t *testing.T, path string) {
			short := filepath.Join(os.TempDir(), filepath.Base(t.TempDir())+".sock")
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", short)
			assert.NilError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			assert.NilError(t, os.Rename(short, path))
		}},
		{"folder", "it is a folder, where a file is expected", func(t *testing.T, path string) {
			assert.NilError(t, os.Mkdir(path, 0o755))
		}},
		{"large", "it is larger than 1024 KiB", func(t *testing.T, path string) {
			writeFile(t, path, strings.Repeat("#", maxFile+1))
		}},
	} {
		for _, name := range []string{sandboxDockerfile, dependenciesFile} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				root := newProject(t, nil)
				tc.make(t, projectPath(root, name))
				_, _, err := FindProject(t.Context(), root)
				assert.ErrorContains(t, err, projectPath(root, name)+": "+tc.want)
			})
		}
	}
}

func TestFindProjectRefusesFolder(t *testing.T) {
	elsewhere := newProject(t, map[string]string{dependenciesFile: "jq\n"})
	t.Run("link", func(t *testing.T) {
		root := t.TempDir()
		assert.NilError(t, os.Symlink(filepath.Join(elsewhere, projectFolder), filepath.Join(root, projectFolder)))
		_, _, err := FindProject(t.Context(), root)
		assert.Error(t, err, filepath.Join(root, projectFolder)+": it is a symbolic link, where a folder is expected")
	})
	t.Run("file", func(t *testing.T) {
		root := t.TempDir()
		writeFile(t, filepath.Join(root, projectFolder), "")
		_, _, err := FindProject(t.Context(), root)
		assert.Error(t, err, filepath.Join(root, projectFolder)+": it is a file, where a folder is expected")
	})
}

func TestFindProjectFollowsLinksInItsFolder(t *testing.T) {
	root := newProject(t, map[string]string{"lists/common": "jq\n"})
	assert.NilError(t, os.Symlink("lists/common", projectPath(root, dependenciesFile)))
	assert.DeepEqual(t, names(findProject(t, root).Packages), []string{"jq"})
}

func TestContextDecidesTheTag(t *testing.T) {
	const copies = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY tools /srv\n"
	tag := func(t *testing.T, root string) string { return projectTag("claude", "base:v1", findProject(t, root)) }
	for _, tc := range []struct {
		name, dockerfile, ignore string
		change                   func(t *testing.T, root string)
		same                     bool
	}{
		{"content", copies, "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/a"), "B") }, false},
		{"new file", copies, "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/b"), "") }, false},
		{"mode", copies, "", func(t *testing.T, root string) { assert.NilError(t, os.Chmod(projectPath(root, "tools/a"), 0o755)) }, false},
		{"name", copies, "", func(t *testing.T, root string) {
			assert.NilError(t, os.Rename(projectPath(root, "tools/a"), projectPath(root, "tools/c")))
		}, false},
		{"link", copies, "", func(t *testing.T, root string) {
			assert.NilError(t, os.Remove(projectPath(root, "tools/link")))
			assert.NilError(t, os.Symlink("/etc/shadow", projectPath(root, "tools/link")))
		}, false},
		{"time", copies, "", func(t *testing.T, root string) {
			assert.NilError(t, os.Chtimes(projectPath(root, "tools/a"), fixedTime, fixedTime))
		}, true},
		{"ignored", copies, "tools/log\n", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/log"), "x") }, true},
		{"ignored but for one", copies, "*\n!tools/a\n", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/a"), "x") }, false},
		{"not copied", copies, "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "notes"), "x") }, true},
		{"behind a link", copies, "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "elsewhere"), "x") }, false},
		{"a pattern's", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY t*/? /srv/\n", "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/b"), "") }, false},
		{"not a pattern's", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY t*/? /srv/\n", "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/long"), "") }, true},
		{"what is not there yet", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY missing /srv/\n", "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "missing"), "") }, false},
		{"an argument's", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nARG X=tools\nCOPY $X /srv\n", "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "notes"), "x") }, false},
		{"ONBUILD's", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE} AS b\nONBUILD COPY tools /srv/\nFROM b\n", "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/a"), "x") }, false},
		{"outside of the folder", copies, "", func(t *testing.T, root string) { writeFile(t, filepath.Join(root, "main.go"), "x") }, true},
		{"nothing copied", plainLayer, "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/a"), "B") }, true},
		{"a pipe is not part of it", copies, "", func(t *testing.T, root string) {
			assert.NilError(t, unix.Mkfifo(projectPath(root, "tools/pipe"), 0o644))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string]string{sandboxDockerfile: tc.dockerfile, "tools/a": "A"}
			if tc.ignore != "" {
				files[".dockerignore"] = tc.ignore
			}
			root := newProject(t, files)
			assert.NilError(t, os.Symlink("a", projectPath(root, "tools/link")))
			if tc.name == "behind a link" {
				assert.NilError(t, os.Rename(projectPath(root, "tools"), projectPath(root, "real")))
				assert.NilError(t, os.Symlink("elsewhere", projectPath(root, "tools")))
				writeFile(t, projectPath(root, "elsewhere"), "1")
			}
			before := tag(t, root)
			assert.Equal(t, tag(t, root), before)
			tc.change(t, root)
			assert.Equal(t, tag(t, root) == before, tc.same)
		})
	}
}

// What is copied may be behind a link, but not outside.
func TestLinksThatCannotBeFollowed(t *testing.T) {
	for name, tc := range map[string]struct{ copied, target string }{
		"out of the folder":       {"sub/tool", "/usr/bin"},
		"absolute, within":        {"sub", ""}, // to the folder's own path
		"in a circle":             {"sub", "sub"},
		"to the folder's outside": {"sub/config", "../.git"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newProject(t, map[string]string{sandboxDockerfile: "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY " + tc.copied + " /x\n", "real": ""})
			target := tc.target
			if target == "" {
				target = projectPath(root, "real")
			}
			assert.NilError(t, os.Symlink(target, projectPath(root, "sub")))
			_, _, err := FindProject(t.Context(), root)
			assert.Error(t, err, "reading what "+projectPath(root, sandboxDockerfile)+" may copy: "+projectPath(root, "sub")+
				": it is a symbolic link, which may only lead to something else in .agent-loop, by a relative path")
		})
	}
}

func TestIgnoreFiles(t *testing.T) {
	const copies = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY . /srv\n"
	t.Run("the Dockerfile's own wins", func(t *testing.T) {
		root := newProject(t, map[string]string{sandboxDockerfile: copies, ".dockerignore": "a\n", sandboxDockerfile + ".dockerignore": "b\n"})
		assert.DeepEqual(t, findProject(t, root).context, []string{"b"})
	})
	t.Run("bad pattern", func(t *testing.T) {
		root := newProject(t, map[string]string{sandboxDockerfile: copies, ".dockerignore": "[\n"})
		_, _, err := FindProject(t.Context(), root)
		assert.ErrorContains(t, err, projectPath(root, ".dockerignore")+": ")
	})
	t.Run("a link out", func(t *testing.T) {
		root := newProject(t, map[string]string{sandboxDockerfile: copies})
		assert.NilError(t, os.Symlink("/etc/passwd", projectPath(root, ".dockerignore")))
		_, _, err := FindProject(t.Context(), root)
		assert.ErrorContains(t, err, "may only lead to another file")
	})
}

func TestFindProjectCancelled(t *testing.T) {
	root := newProject(t, map[string]string{sandboxDockerfile: "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY a /srv\n", "a": "x"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := FindProject(ctx, root)
	assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
}
