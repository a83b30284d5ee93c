package projectimage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
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
		{"link out of the repository", "symbolic link does not lead to a file in .agent-loop", func(t *testing.T, path string) {
			assert.NilError(t, os.Symlink(secret, path))
		}},
		{"link within the repository", "symbolic link does not lead to a file in .agent-loop", func(t *testing.T, path string) {
			writeFile(t, filepath.Join(filepath.Dir(path), "../.git/config"), "token")
			assert.NilError(t, os.Symlink("../.git/config", path))
		}},
		{"link to nowhere", "symbolic link does not lead", func(t *testing.T, path string) {
			assert.NilError(t, os.Symlink("nowhere", path))
		}},
		{"named pipe", "is a named pipe, not a regular file", func(t *testing.T, path string) {
			assert.NilError(t, unix.Mkfifo(path, 0o644))
		}},
		{"link to a named pipe", "is a named pipe, not a regular file", func(t *testing.T, path string) {
			assert.NilError(t, unix.Mkfifo(filepath.Join(filepath.Dir(path), "pipe"), 0o644))
			assert.NilError(t, os.Symlink("pipe", path))
		}},
		{"socket", "is a socket, not a regular file", func(t *testing.T, path string) {
			short := filepath.Join(os.TempDir(), filepath.Base(t.TempDir())+".sock")
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", short)
			assert.NilError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			assert.NilError(t, os.Rename(short, path))
		}},
		{"folder", "is a directory, not a regular file", func(t *testing.T, path string) {
			assert.NilError(t, os.Mkdir(path, 0o755))
		}},
		{"large", "larger than 1024 KiB", func(t *testing.T, path string) {
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
		assert.Error(t, err, filepath.Join(root, projectFolder)+": is a symbolic link, not a directory")
	})
	t.Run("file", func(t *testing.T) {
		root := t.TempDir()
		writeFile(t, filepath.Join(root, projectFolder), "")
		_, _, err := FindProject(t.Context(), root)
		assert.Error(t, err, filepath.Join(root, projectFolder)+": is a file, not a directory")
	})
}

func TestBuildContextIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		make       func(t *testing.T, root string)
	}{
		{"sparse file", "more than 512MiB, with tools/big", func(t *testing.T, root string) {
			writeFile(t, projectPath(root, "tools/big"), "")
			assert.NilError(t, os.Truncate(projectPath(root, "tools/big"), 1<<42))
		}},
		{"sparse file, not sent", "", func(t *testing.T, root string) {
			writeFile(t, projectPath(root, "big"), "")
			assert.NilError(t, os.Truncate(projectPath(root, "big"), 1<<42))
			writeFile(t, projectPath(root, ".dockerignore"), "big\n")
		}},
		{"patterns", ".dockerignore: more than 1000 patterns", func(t *testing.T, root string) {
			writeFile(t, projectPath(root, ".dockerignore"), strings.Repeat("x\n", maxIgnored+1))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := newProject(t, map[string]string{sandboxDockerfile: "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n"})
			tc.make(t, root)
			_, _, err := FindProject(t.Context(), root)
			if tc.want == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.want)
			}
		})
	}
	t.Run("number and sum", func(t *testing.T) {
		root := newProject(t, map[string]string{"a": "aaa", "b": "bbb", "c": "ccc"})
		folder, err := openProjectFolder(root)
		assert.NilError(t, err)
		defer func() { _ = folder.Close() }()
		_, err = readContext(t.Context(), folder, nil, 9, 3)
		assert.NilError(t, err)
		_, err = readContext(t.Context(), folder, nil, 8, 3)
		assert.Error(t, err, "more than 8B, with c")
		assert.DeepEqual(t, hint.Of(err), []string{"exclude what the build does not need in .agent-loop/.dockerignore"})
		_, err = readContext(t.Context(), folder, nil, 9, 2)
		assert.Error(t, err, "more than 2 files, with c")
	})
}

func TestFindProjectFollowsLinksInItsFolder(t *testing.T) {
	root := newProject(t, map[string]string{"lists/common": "jq\n"})
	assert.NilError(t, os.Symlink("lists/common", projectPath(root, dependenciesFile)))
	assert.DeepEqual(t, names(findProject(t, root).Packages), []string{"jq"})
}

func TestContextDecidesTagAndApproval(t *testing.T) {
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
		{"not copied", copies, "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "notes"), "x") }, false},
		{"nothing is copied", plainLayer, "", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/a"), "B") }, false},
		{"what is ignored", copies, ".dockerignore\ntools\n", func(t *testing.T, root string) { writeFile(t, projectPath(root, ".dockerignore"), ".dockerignore\n") }, false},
		{"outside of the folder", copies, "", func(t *testing.T, root string) { writeFile(t, filepath.Join(root, "main.go"), "x") }, true},
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
			before := findProject(t, root)
			assert.Equal(t, tag(t, root), projectTag("claude", "base:v1", before))
			tc.change(t, root)
			after := findProject(t, root)
			assert.Equal(t, tag(t, root) == projectTag("claude", "base:v1", before), tc.same)
			assert.Equal(t, after.Digest() == before.Digest(), tc.same, "what is approved is what is built")
		})
	}
}

func TestDigestOfADockerfileAlone(t *testing.T) {
	root := newProject(t, map[string]string{sandboxDockerfile: plainLayer})
	p := findProject(t, root)
	assert.Equal(t, p.contextDigest(), "", "the tag is that of the format")
	writeFile(t, projectPath(root, sandboxDockerfile), plainLayer+"\n")
	changed := findProject(t, root)
	assert.Assert(t, changed.Digest() != p.Digest())
	assert.Assert(t, changed.Files()[sandboxDockerfile] != p.Files()[sandboxDockerfile])

	// .dockerignore cannot hide the Dockerfile itself, not even behind a link.
	root = newProject(t, map[string]string{".dockerignore": "*\n", "real": plainLayer})
	assert.NilError(t, os.Symlink("real", projectPath(root, sandboxDockerfile)))
	p = findProject(t, root)
	writeFile(t, projectPath(root, "real"), plainLayer+"RUN true\n")
	changed = findProject(t, root)
	assert.Assert(t, changed.Digest() != p.Digest())
	assert.Assert(t, changed.Files()[sandboxDockerfile] != p.Files()[sandboxDockerfile])

	packages := findProject(t, newProject(t, map[string]string{dependenciesFile: "jq\n"}))
	assert.Equal(t, packages.Digest(), "", "names need no approval")
}

// TestOnlyWhatWasReadIsSent changes files between the approval and the build.
func TestOnlyWhatWasReadIsSent(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		change     func(t *testing.T, root string)
	}{
		{"nothing", "", func(*testing.T, string) {}},
		{"content of the same length", "tools/a changed during the build", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/a"), "B") }},
		{"more content", "tools/a changed during the build", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/a"), "AA") }},
		{"mode", "tools/a changed during the build", func(t *testing.T, root string) { assert.NilError(t, os.Chmod(projectPath(root, "tools/a"), 0o755)) }},
		{"new file", "tools/new changed during the build", func(t *testing.T, root string) { writeFile(t, projectPath(root, "tools/new"), "") }},
		{"much larger", "tools/a changed during the build", func(t *testing.T, root string) {
			assert.NilError(t, os.Truncate(projectPath(root, "tools/a"), 1<<42))
		}},
		{"hard link to other content", "tools/b changed during the build", func(t *testing.T, root string) {
			assert.NilError(t, os.Remove(projectPath(root, "tools/b")))
			assert.NilError(t, os.Link(projectPath(root, "tools/a"), projectPath(root, "tools/b")))
		}},
		{"hard link to the same content", "", func(t *testing.T, root string) {
			assert.NilError(t, os.Remove(projectPath(root, "tools/same")))
			assert.NilError(t, os.Link(projectPath(root, "tools/a"), projectPath(root, "tools/same")))
		}},
		{"symbolic link in a file's place", "tools/a changed during the build", func(t *testing.T, root string) {
			assert.NilError(t, os.Remove(projectPath(root, "tools/a")))
			assert.NilError(t, os.Symlink("b", projectPath(root, "tools/a")))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := newProject(t, map[string]string{sandboxDockerfile: plainLayer, "tools/a": "A", "tools/b": "b", "tools/same": "A"})
			p := findProject(t, root)
			tc.change(t, root)
			folder, err := openProjectFolder(root)
			assert.NilError(t, err)
			defer func() { _ = folder.Close() }()
			files, err := contextFiles(folder, nil)
			assert.NilError(t, err)
			sent := newVerifiedFS(files, p.files)
			err = sent.Walk(t.Context(), "", func(path string, entry fs.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return err
				}
				f, err := sent.Open(path)
				if err != nil {
					return err
				}
				defer func() { _ = f.Close() }()
				_, err = io.Copy(io.Discard, f)
				return err
			})
			if tc.want == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestIgnoreFiles(t *testing.T) {
	const copies = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY . /srv\n"
	t.Run("the Dockerfile's own wins", func(t *testing.T) {
		root := newProject(t, map[string]string{sandboxDockerfile: copies, ".dockerignore": "a\n", sandboxDockerfile + ".dockerignore": "b\n"})
		assert.DeepEqual(t, findProject(t, root).ignored, []string{"b"})
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
		assert.ErrorContains(t, err, "does not lead to a file")
	})
}

func TestFindProjectCancelled(t *testing.T) {
	root := newProject(t, map[string]string{sandboxDockerfile: "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY a /srv\n", "a": "x"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := FindProject(ctx, root)
	assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
}
