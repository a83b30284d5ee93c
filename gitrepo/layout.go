package gitrepo

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// layoutLines is the number of lines of the output for layoutArgs, without the branch.
const layoutLines = 7

// layoutArgs gets all paths from one process. git stops at --show-toplevel if there is no
// worktree, and at HEAD if the branch has no commit. The repeated --is-inside-git-dir shows
// where a path with line breaks ends.
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

// branchOf returns the branch in the answer to layoutArgs; empty if it is detached or has no
// commit.
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

const branchPrefix = "refs/heads/"

// readLayout returns a Worktree without a scope.
func readLayout(dir string, a answer, c Config) (Worktree, error) {
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
	}
	w.Config, w.MainRoot = c.in(w.Root), w.Root
	if w.Linked() {
		w.MainRoot = mainRoot(w.CommonDir, c)
	}
	return w, checkRoot(dir, w)
}

// checkLayout returns an error for answers without a worktree.
func checkLayout(dir string, a answer, lines []string) error {
	isTrue := func(i int) bool { return len(lines) > i && lines[i] == "true" }
	switch {
	case isWhole(lines):
		return nil
	case len(lines) >= layoutLines && !isTrue(0) && !isTrue(1):
		return hint.Wrap(fmt.Errorf("line break in the path of the repository of %q", dir), "rename the directory")
	case isTrue(0) || says(a.err, "cannot use bare repository") && !insideDotGit(dir):
		return hint.Wrap(fmt.Errorf("%q is in a bare repository", dir), "use a clone, or a worktree created with %q", "git worktree add PATH")
	case isTrue(1) || says(a.err, "cannot use bare repository"):
		return hint.Wrap(fmt.Errorf("%q is inside a git directory", dir), "change to its worktree")
	case says(a.err, "not a git repository (or any"):
		return ErrNotRepository
	case a.err == nil:
		return fmt.Errorf("detecting the git repository of %q: unexpected output %q", dir, a.stdout)
	default:
		return fmt.Errorf("detecting the git repository of %q: %w", dir, a.err)
	}
}

// isWhole reports whether each answer is in its line, ignoring the branch.
func isWhole(lines []string) bool {
	const no = "false"
	if len(lines) < layoutLines || lines[0] != no || lines[1] != no || lines[layoutLines-1] != no {
		return false
	}
	rest := lines[layoutLines:]
	return len(rest) == 0 || len(rest) == 1 && (rest[0] == "HEAD" || strings.HasPrefix(rest[0], "refs/"))
}

// insideDotGit distinguishes .git from a bare repository, for which older versions of git
// have the same message.
func insideDotGit(dir string) bool {
	for _, part := range strings.Split(filepath.ToSlash(realPath(dir)), "/") {
		if part == ".git" {
			return true
		}
	}
	return false
}
