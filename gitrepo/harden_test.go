//go:build unix

package gitrepo

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// hostile returns a repository with programs of an agent that create the marker: filters for
// each file, and a remote that is asked for missing objects.
func hostile(t *testing.T, run string) (root string) {
	t.Helper()
	root = repository(t)
	assert.NilError(t, os.WriteFile(filepath.Join(root, "file"), []byte("x\n"), 0o644))
	assert.NilError(t, os.WriteFile(filepath.Join(root, ".gitattributes"), []byte("* merge=x diff=x filter=x.y=z\n"), 0o644))
	gitIn(t, root, "add", "file", ".gitattributes")
	gitIn(t, root, "commit", "-q", "-m", "file")
	assert.NilError(t, os.WriteFile(filepath.Join(root, ".git", "info", "attributes"), []byte("f* filter=x.y=z\n.git* filter=w\n* diff=x\n"), 0o644))
	hooks := filepath.Join(root, ".git", "hooks")
	assert.NilError(t, os.MkdirAll(hooks, 0o755))
	for _, name := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman", "post-merge"} {
		assert.NilError(t, os.WriteFile(filepath.Join(hooks, name), []byte("#!/bin/sh\n"+run+"\n"), 0o755))
	}
	// Of the worktree only, as git config --worktree writes it.
	assert.NilError(t, os.WriteFile(filepath.Join(root, ".git", "config.worktree"), []byte("[filter \"w\"]\n\tclean = "+run+"\n\tprocess = "+run+"\n[core]\n\tfsmonitor = "+run+"\n"), 0o644))
	for key, value := range map[string]string{
		"filter.x.y=z.clean": run, "filter.x.y=z.smudge": run, "filter.x.y=z.process": run, "filter.x.y=z.required": "true",
		"hook.evil.command": run, "hook.evil.event": "post-checkout",
		"core.sshCommand": run, "core.gitProxy": run, "credential.helper": "!" + run, "remote.evil.uploadpack": run,
		"diff.external": run, "diff.x.command": run, "diff.x.textconv": run, "diff.submodule": "diff",
		"protocol.allow": "always", "protocol.ext.allow": "always", "protocol.file.allow": "always", "protocol.ssh.allow": "always", "protocol.git.allow": "always",
		"remote.evil.promisor": "true", "remote.evil.partialCloneFilter": "blob:none",
		"core.repositoryFormatVersion": "1", "extensions.partialClone": "evil", "extensions.worktreeConfig": "true",
		"core.fsmonitor": run, "core.hooksPath": hooks, "core.editor": run, "sequence.editor": run, "core.pager": run, "pager.log": run, "pager.diff": run,
		"core.askPass": run, "core.alternateRefsCommand": run, "gc.recentObjectsHook": run, "uploadpack.packObjectsHook": run,
		"gpg.program": run, "gpg.ssh.program": run, "log.showSignature": "true", "commit.gpgSign": "true", "push.gpgSign": "true",
		"merge.x.driver": run, "merge.default": "x", "submodule.x.update": "!" + run, "submodule.recurse": "true", "status.submoduleSummary": "true",
		"alias.status": "!" + run, "alias.log": "!" + run, "trailer.x.command": run, "tar.x.command": run, "interactive.diffFilter": run,
		"remote.vcs.vcs": "ext", "remote.vcs.url": "sh -c " + run, "url.ext::sh -c touch% .insteadOf": "touch:", "remote.instead.url": "touch:x",
	} {
		gitIn(t, root, "config", key, value)
	}
	// Of the same size, so that git has to compare the contents.
	assert.NilError(t, os.WriteFile(filepath.Join(root, "file"), []byte("y\n"), 0o644))
	return root
}

// forgetful is git without GIT_NO_LAZY_FETCH, as before 2.45.
func forgetful(t *testing.T) string {
	t.Helper()
	git, err := exec.LookPath("git")
	assert.NilError(t, err)
	path := filepath.Join(t.TempDir(), "git")
	syscall.ForkLock.RLock() // or else a child could hold it open: "text file busy"
	defer syscall.ForkLock.RUnlock()
	assert.NilError(t, os.WriteFile(path, []byte("#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec "+git+" \"$@\"\n"), 0o755))
	return path
}

func TestNoProgramOfTheConfigurationIsRun(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	run := "touch " + marker + "; false"
	missing := strings.Repeat("1", 40)
	old := forgetful(t)
	for _, url := range []string{"", "ssh://example.invalid/x", "git://example.invalid/x", "/dev/null", "file:///dev/null", "ext::sh -c touch% " + marker} {
		root := hostile(t, run)
		if url != "" {
			gitIn(t, root, "config", "remote.evil.url", url)
		}
		for _, args := range [][]string{
			{"status", "--porcelain"},
			{"diff", "HEAD"},
			{"log", "-p"},
			{"--git-dir=" + filepath.Join(root, ".git"), "--work-tree=" + root, "status"},
			{"-c", "core.quotePath=false", "ls-files", "-m"},
			{"update-index", "--refresh"},
			{"worktree", "add", "--quiet", "-b", "other", filepath.Join(root, ".worktrees", "other")},
			{"worktree", "remove", "--force", filepath.Join(root, ".worktrees", "other")},
			{"hash-object", "-w", "--path=file", "file"},
			{"checkout", "-f", "HEAD", "--", "."},
			{"cat-file", "-p", missing},
			{"cat-file", "--batch-check"},
			{"cat-file", "--filters", "HEAD:file"},
			{"rev-list", "--objects", missing},
			{"fetch", "evil"},
			{"ls-remote", "evil"},
			{"fetch", "vcs"},
			{"fetch", "instead"},
			{"update-ref", "refs/heads/new", "HEAD"},
			{"branch", "-D", "new"},
			{"read-tree", "-m", "-u", "HEAD"},
			{"reset", "--hard", "--quiet"},
			{"commit-tree", "--no-gpg-sign", "-m", "x", "HEAD^{tree}"},
			{"for-each-ref"},
			{"diff-tree", "-p", "HEAD"},
		} {
			for _, program := range []string{"git", old} {
				g, err := NewGit(root)
				assert.NilError(t, err)
				g.Program = program
				var out bytes.Buffer
				_ = g.Stream(t.Context(), strings.NewReader(missing+"\n"), &out, args...) // most fail
				_, err = os.Lstat(marker)
				assert.Assert(t, os.IsNotExist(err), "git %q with the remote %q: %s", args, url, &out)
			}
		}
	}
}

// Files are those of the commit, although the filter is required.
func TestWorktreeIsAddedWithoutFilters(t *testing.T) {
	root := hostile(t, "false")
	g, err := NewGit(root)
	assert.NilError(t, err)
	path := filepath.Join(root, ".worktrees", "other")
	_, err = g.Run(t.Context(), "worktree", "add", "--quiet", "-b", "other", path)
	assert.NilError(t, err)
	content, err := os.ReadFile(filepath.Join(path, "file"))
	assert.NilError(t, err)
	assert.Equal(t, string(content), "x\n")
}

func TestNamedSettingsAreSwitchedOff(t *testing.T) {
	g, err := NewGit(hostile(t, "false"))
	assert.NilError(t, err)
	g.Environ = append(g.Environ, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=theirs")
	cmd, err := g.command(t.Context(), []string{"status"})
	assert.NilError(t, err)
	for key, want := range map[string]string{
		"filter.x.y=z.clean": "", "filter.x.y=z.smudge": "", "filter.x.y=z.process": "", "filter.x.y=z.required": "false",
		"hook.evil.enabled": "false", "user.name": "theirs", "core.hooksPath": os.DevNull, "diff.submodule": "short", "gc.auto": "0",
	} {
		args := slices.Concat(cmd.Args[1:slices.Index(cmd.Args, "status")], []string{"config", "--get", key})
		get := exec.Command(cmd.Path, args...)
		get.Dir, get.Env = cmd.Dir, cmd.Env
		out, err := get.Output()
		assert.NilError(t, err, key)
		assert.Check(t, is.Equal(string(out), want+"\n"), key)
	}
}

func TestSubcommand(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"status"}, "status"},
		{[]string{"status", "-z"}, "status"},
		{[]string{"--git-dir=/x", "--paginate", "log", "-p"}, "log"},
		{[]string{"-c", "a.b=c", "-C", "dir", "read-tree", "-m"}, "read-tree"},
		{[]string{"--version"}, "--version"},
	} {
		assert.Check(t, is.Equal(tc.args[subcommand(tc.args)], tc.want))
	}
}
