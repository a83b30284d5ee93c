package amend

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// TestMain keeps the configuration of the machine out: it may have Git LFS.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1",
		"GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.com", "GIT_AUTHOR_DATE": "2020-01-02T03:04:05+0130",
		"GIT_COMMITTER_NAME": "Com", "GIT_COMMITTER_EMAIL": "com@example.com",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

const (
	pointer  = `'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n'`
	scaffold = `mkdir -p app && git init -q app && echo {} > app/package.json && git -C app add -A && git -C app commit -qm scaffolded; `
)

// repository has a pointer of Git LFS, a raw file that the user has committed, an encoded file
// of a filter that is not known, and a branch that the user has merged nowhere.
const repository = `git init -q -b main
printf '*.bin filter=lfs -text\n*.key filter=git-crypt\n*.up filter=up\n*.none filter=none\n' > .gitattributes
printf ` + pointer + ` > big.bin; echo raw > old.bin; echo UP > a.up; echo a > a.txt
git add -A; git commit -qm start
git checkout -qb other; echo OTHER > other.up; git add -A; git commit -qm other; git checkout -q main
git config filter.up.required false`

func shell(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	return strings.TrimSuffix(string(out), "\n")
}

func TestLeaveOut(t *testing.T) {
	t.Parallel()
	const nested = `"app" is a git repository of its own, so your commits had none of its files: remove app/.git and commit the files`
	for _, tc := range []struct {
		name, run string
		reasons   []string
		same      bool   // the commits are as they were
		log       string // subjects and files of the commits since the start, the latest first
		status    string
	}{
		{name: "no commit", run: `echo b > b.txt`, same: true, status: "?? b.txt"},
		{name: "files only", run: `echo b > b.txt; git add -A; git commit -qm b`, same: true, log: "b b.txt"},
		{
			name: "link", run: scaffold + `echo b > b.txt; git add -A; git commit -qm b`,
			reasons: []string{nested}, log: "b b.txt", status: "?? app/",
		},
		{name: "link only", run: scaffold + `git add -A; git commit -qm app`, reasons: []string{nested}, status: "?? app/"},
		{
			name: "link below a later commit", run: scaffold + `git add -A; git commit -qm app; echo b > b.txt; git add -A; git commit -qm b; git commit -q --allow-empty -m empty`,
			reasons: []string{nested}, log: "empty\nb b.txt", status: "?? app/",
		},
		{name: "link that the run removes", run: scaffold + `git add -A; git commit -qm app; git rm -q --cached app; git commit -qm 'no app'`, status: "?? app/"},
		{
			name: "link that the run replaces by files", run: scaffold + `git add -A; git commit -qm app; git rm -q --cached app; rm -rf app/.git; git add -A; git commit -qm files`,
			log: "files app/package.json",
		},
		{
			name: "link in a branch that is merged", run: `git checkout -qb side; ` + scaffold + `git add -A; git commit -qm app; echo b > b.txt; git add -A; git commit -qm b
				git checkout -q main; echo c > c.txt; git add c.txt; git commit -qm c; git merge -q --no-edit side`,
			reasons: []string{nested}, log: "Merge branch 'side'\nb b.txt\nc c.txt", status: "?? app/",
		},
		{
			name: "link in a merge", run: scaffold + `git checkout -qb side; echo b > b.txt; git add b.txt; git commit -qm b
				git checkout -q main; git merge -q --no-ff --no-commit side; git add -A; git commit -qm merge`,
			reasons: []string{nested}, log: "merge\nb b.txt", status: "?? app/",
		},
		{
			name: "link instead of a directory", run: `mkdir d; echo d > d/d.txt; git add -A; git commit -qm d; git rm -rq --cached d
				git init -q d; git -C d add -A; git -C d commit -qm inner; git add d; git commit -qm link`,
			reasons: []string{`"d" is a git repository of its own, so your commits had none of its files: remove d/.git and commit the files`}, log: "link d/d.txt\nd d/d.txt", status: "?? d/",
		},
		{
			name: "branch that was rewritten", run: scaffold + `git add -A; git commit -q --amend -m amended`, same: true,
			reasons: []string{nested}, log: "amended .gitattributes a.txt a.up app big.bin old.bin",
		},
		{
			name: "tracked file of Git LFS", run: `echo raw > big.bin; echo b > b.txt; git add -A; git commit -qm b`,
			reasons: []string{`"big.bin" needs the git filter "lfs", which this sandbox does not have: do not commit it`}, log: "b b.txt", status: " M big.bin",
		},
		{
			name: "new file of Git LFS", run: `echo raw > new.bin; git add -A; git commit -qm b`,
			reasons: []string{`"new.bin" needs the git filter "lfs", which this sandbox does not have: do not commit it`}, status: "?? new.bin",
		},
		{name: "pointer of Git LFS", run: `printf ` + pointer + ` > new.bin; : > empty.bin; git add -A; git commit -qm b`, same: true, log: "b empty.bin new.bin"},
		{name: "mode of a raw file", run: `chmod +x old.bin; git add -A; git commit -qm b`, same: true, log: "b old.bin"},
		{name: "link of a filtered name", run: `ln -s a.txt link.bin; git add -A; git commit -qm b`, same: true, log: "b link.bin"},
		{
			name: "raw file of git-crypt", run: `echo secret > a.key; git add -A; git commit -qm b`,
			reasons: []string{`"a.key" needs the git filter "git-crypt", which this sandbox does not have: do not commit it`}, status: "?? a.key",
		},
		{name: "encoded file of git-crypt", run: `printf '\0GITCRYPT\0xxx' > a.key; git add -A; git commit -qm b`, same: true, log: "b a.key"},
		{
			name: "attributes of the same run", run: `echo '*.psd filter=lfs' > .gitattributes; echo raw > a.psd; git add -A; git commit -qm b`,
			reasons: []string{`"a.psd" needs the git filter "lfs", which this sandbox does not have: do not commit it`}, log: "b .gitattributes", status: "?? a.psd",
		},
		{
			name: "attributes of a directory", run: `mkdir d; echo '*.psd filter=lfs' > d/.gitattributes; echo raw > a.psd; echo raw > d/a.psd; git add -A; git commit -qm b`,
			reasons: []string{`"d/a.psd" needs the git filter "lfs", which this sandbox does not have: do not commit it`}, log: "b a.psd d/.gitattributes", status: "?? d/a.psd",
		},
		{
			name: "another filter of the user", run: `echo low > a.up; git add -A; git commit -qm b`,
			reasons: []string{`"a.up" needs the git filter "up", which this sandbox does not have: do not commit it`}, status: " M a.up",
		},
		{name: "another filter that the agent has configured", run: `git config filter.up.clean 'tr a-z A-Z'; echo low > a.up; git add -A; git commit -qm b`, same: true, log: "b a.up"},
		{name: "filter that the user does not have", run: `echo low > a.none; git add -A; git commit -qm b`, same: true, log: "b a.none"},
		{name: "merge of a branch of the user", run: `git merge -q --no-ff --no-edit other`, same: true, log: "Merge branch 'other'\nother other.up"},
		{
			name: "unusual names", run: `d="$(printf 'a\tb\nc')"; mkdir "$d"; printf '"x y.bin" -filter\n' > "$d/.gitattributes"; echo raw > "$d/x.bin"; echo raw > "$d/x y.bin"; echo b > b.txt; git add -A; git commit -qm b`,
			reasons: []string{`"a\tb\nc/x.bin" needs the git filter "lfs", which this sandbox does not have: do not commit it`},
			log:     `b "a\tb\nc/.gitattributes" "a\tb\nc/x y.bin" b.txt`, status: `?? "a\tb\nc/x.bin"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			shell(t, dir, repository)
			start, err := Worktree(dir).Begin(t.Context())
			assert.NilError(t, err)
			shell(t, dir, tc.run)
			head := shell(t, dir, "git rev-parse HEAD")
			left, err := start.LeaveOut(t.Context())
			assert.NilError(t, err)
			var reasons []string
			for _, f := range left.Files {
				reasons = append(reasons, f.Reason())
			}
			assert.DeepEqual(t, reasons, tc.reasons)
			now := shell(t, dir, "git rev-parse HEAD")
			assert.Equal(t, now == head, tc.same)
			assert.Equal(t, left.Commits == nil, tc.same)
			if !tc.same {
				assert.Equal(t, left.Commits[head], now)
			}
			log := shell(t, dir, `git log --topo-order --format='> %s' --name-only HEAD ^`+start.head+` | sed '/^$/d' | tr '\n' ' '`)
			assert.Equal(t, strings.TrimSpace(strings.NewReplacer(" > ", "\n", "> ", "").Replace(log)), tc.log)
			assert.Equal(t, shell(t, dir, "git status --porcelain -uall"), tc.status)
			leaks := shell(t, dir, "git log --raw -m --format= HEAD ^"+start.head)
			assert.Check(t, tc.name == "branch that was rewritten" || !strings.Contains(leaks, "160000"), leaks)
			shell(t, dir, "git fsck --strict")
			left2, err := start.LeaveOut(t.Context())
			assert.NilError(t, err)
			assert.Check(t, left2.Commits == nil, "it is done")
			temporary, err := filepath.Glob(filepath.Join(dir, ".git", "ralph-*"))
			assert.NilError(t, err)
			assert.Equal(t, len(temporary), 0)
		})
	}
}

// Only trees and parents of commits change.
func TestCommitsKeepTheRest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shell(t, dir, repository)
	start, err := Worktree(dir).Begin(t.Context())
	assert.NilError(t, err)
	shell(t, dir, scaffold+`git add -A; echo b > b.txt; git add -A; printf 'subject\n\nbody\n\n\nFooter: x' | git -c i18n.commitEncoding=latin1 commit -q --cleanup=verbatim -F -
		echo c > c.txt; git add -A; git commit -qm c`)
	rest := func() string {
		return shell(t, dir, `git log --format='%an %ae %ad %cn %ce %cd %e%n%B|' HEAD ^`+start.head)
	}
	before := rest()
	left, err := start.LeaveOut(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(left.Commits), 2)
	assert.Equal(t, rest(), before)
	assert.Equal(t, shell(t, dir, "git rev-parse HEAD~2"), start.head)
}

// In a repository without a commit, the first one stays.
func TestFirstCommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shell(t, dir, "git init -q -b main")
	start, err := Worktree(dir).Begin(t.Context())
	assert.NilError(t, err)
	shell(t, dir, scaffold+"git add -A; git commit -qm first")
	left, err := start.LeaveOut(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(left.Files), 1)
	assert.Equal(t, shell(t, dir, "git log --format=%s --name-only; git status --porcelain"), "first\n?? app/")
}

// A commit that was signed is signed again.
func TestSignedCommits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shell(t, dir, repository+`
		ssh-keygen -q -t ed25519 -N '' -f .git/key; echo "ann@example.com $(cat .git/key.pub)" > .git/allowed
		git config gpg.format ssh; git config user.signingKey "$PWD/.git/key.pub"; git config gpg.ssh.allowedSignersFile "$PWD/.git/allowed"`)
	start, err := Worktree(dir).Begin(t.Context())
	assert.NilError(t, err)
	shell(t, dir, scaffold+`git add -A; echo b > b.txt; git add -A; git commit -q -S -m 'subject

body'`)
	before := shell(t, dir, "git log -1 --format='%an %ae %ad %cn %ce %cd%n%B'")
	_, err = start.LeaveOut(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, shell(t, dir, "git log -1 --format='%an %ae %ad %cn %ce %cd%n%B'"), before)
	shell(t, dir, "git verify-commit HEAD && git diff --quiet HEAD~ HEAD -- app")
}
