package gitrepo

import (
	"fmt"
	"path/filepath"
	"strings"
)

// layoutLines is how many lines git answers to layoutArgs, without that of the
// branch.
const layoutLines = 7

// layoutArgs asks for everything about where things are in one process. git
// prints answer by answer and stops at --show-toplevel if there is no work
// tree. What comes after that is asked twice to see where the path ends. A branch
// comes last: git stops there too if it has no commit.
func layoutArgs() []string {
	return []string{
		"rev-parse", "--is-bare-repository", "--is-inside-git-dir",
		"--absolute-git-dir", "--git-common-dir", "--show-prefix", "--show-toplevel",
		"--is-inside-git-dir", "--symbolic-full-name", "HEAD",
	}
}

// answer is the output of one git process.
type answer struct {
	stdout string
	err    error
}

func layoutLinesOf(a answer) []string {
	lines := strings.Split(strings.TrimSuffix(a.stdout, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines
}

// branchOf is the branch in the answer to layoutArgs; empty if git has to be asked
// once more: there may be none, or it has no commit.
func branchOf(a answer) string {
	lines := layoutLinesOf(a)
	if a.err != nil || len(lines) != layoutLines+1 {
		return ""
	}
	branch, _ := strings.CutPrefix(lines[layoutLines], branchPrefix)
	if branch == lines[layoutLines] {
		return ""
	}
	return branch
}

// branchPrefix is before the names of branches.
const branchPrefix = "refs/heads/"

// readLayout turns the answer to layoutArgs into a Worktree without a scope.
func readLayout(dir string, a answer, s settings) (Worktree, error) {
	lines := layoutLinesOf(a)
	if err := checkLayout(dir, a, lines); err != nil {
		return Worktree{}, err
	}
	gitDir := realPath(filepath.FromSlash(lines[2]))
	commonDir := filepath.FromSlash(lines[3])
	if !filepath.IsAbs(commonDir) {
		commonDir = filepath.Join(realPath(dir), commonDir)
	}
	w := Worktree{
		Root:      filepath.FromSlash(lines[5]),
		Prefix:    strings.TrimSuffix(lines[4], "/"),
		GitDir:    gitDir,
		CommonDir: realPath(commonDir),
		UserName:  s.userName,
		UserEmail: s.userEmail,
	}
	w.MainRoot = w.Root
	if w.Linked() {
		w.MainRoot = mainRoot(w.CommonDir, s)
	}
	return w, checkRoot(dir, w)
}

// checkLayout explains the answers that come without a work tree.
func checkLayout(dir string, a answer, lines []string) error {
	isTrue := func(i int) bool { return len(lines) > i && lines[i] == "true" }
	switch {
	case isWhole(lines):
		return nil
	case len(lines) >= layoutLines && !isTrue(0) && !isTrue(1):
		return fmt.Errorf("the path of the repository around %q holds a line break: no sandbox can be made for it; rename the folder", dir)
	case isTrue(0) || says(a.err, "cannot use bare repository") && !insideDotGit(dir):
		return fmt.Errorf("%q is in a bare repository, which has no files to work on: make a work tree (git worktree add PATH) or a clone, and go there", dir)
	case isTrue(1) || says(a.err, "cannot use bare repository"):
		return fmt.Errorf("%q is inside a git directory: go to the work tree it belongs to", dir)
	case says(a.err, "not a git repository (or any"):
		return ErrNotRepository
	case a.err == nil:
		return fmt.Errorf("git's answer about %q was not understood: %q", dir, a.stdout)
	default:
		return fmt.Errorf("looking for the git repository of %q: %w", dir, a.err)
	}
}

// isWhole reports whether each answer is in its line, whatever git says of the
// branch.
func isWhole(lines []string) bool {
	const no = "false"
	if len(lines) < layoutLines || lines[0] != no || lines[1] != no || lines[layoutLines-1] != no {
		return false
	}
	rest := lines[layoutLines:]
	return len(rest) == 0 || len(rest) == 1 && (rest[0] == "HEAD" || strings.HasPrefix(rest[0], "refs/"))
}

// insideDotGit tells a repository's .git from a bare repository, which older
// versions of git refuse with the same words.
func insideDotGit(dir string) bool {
	for _, part := range strings.Split(filepath.ToSlash(realPath(dir)), "/") {
		if part == ".git" {
			return true
		}
	}
	return false
}
