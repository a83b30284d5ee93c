//go:build unix

package e2e

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// The usage examples of crush-sandbox in our words: command by command, one
// after the other, in one repository.
func TestCrushSandboxExamples(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.git(t, "branch", "develop")
		for _, part := range []struct {
			name string
			try  func(t *testing.T, w *world)
		}{
			{"basic usage", basicUsage},
			{"worktree usage", worktreeUsage},
			{"branch handling", branchHandling},
			{"parallel worktree usage", parallelUsage},
			{"container management", containerManagement},
			{"migration", migration},
		} {
			if !t.Run(part.name, func(t *testing.T) { part.try(t, w) }) {
				return // the next parts depend on it
			}
		}
	})
}

func basicUsage(t *testing.T, w *world) {
	// run
	assert.Equal(t, w.openShell(t, "run"), w.repo+" main")
	name := w.sandbox(t).Name
	assert.Assert(t, w.sandbox(t).Running, "it is kept, and is not stopped at the end of each session")
	// run --shell: a separate command
	assert.Equal(t, w.openShell(t, "shell"), w.repo+" main")
	assert.Equal(t, w.sandbox(t).Name, name)
	// list-containers
	assert.Assert(t, is.Regexp(`(?m)^`+name+` \(current\) +`+w.slug+`:main +container +shell +running `, w.ok(t, "ls")))
	assert.Equal(t, w.ok(t, "list-containers", "-q"), name+"\n")
	// clean, of the current one
	w.dialogue(t, "clean", askWhich, "1").expect(t, 0)
	assert.Equal(t, len(w.containers(t)), 0)
	cache := container.CacheVolume(w.repo)
	assert.DeepEqual(t, w.volumes(t), []string{cache})
	// clean, of all, with the caches. There is no choice where no sandbox is left.
	assert.Check(t, is.Contains(w.dialogue(t, "clean").expect(t, 0).stdout, "No sandbox of this repository to remove"))
	w.openShell(t, "run")
	w.dialogue(t, "clean", askWhich, "2", askSure, "y").expect(t, 0)
	assert.Equal(t, len(w.containers(t))+len(w.volumes(t)), 0)
}

func worktreeUsage(t *testing.T, w *world) {
	// run --worktree: the flag precedes the command
	got := regexp.MustCompile(`^(.*) (.*)$`).FindStringSubmatch(w.openShell(t, "--worktree run", "'): ", ""))
	assert.Assert(t, is.Regexp(`^[a-z0-9]{8}$`, got[2]))
	random := w.inWorktree(got[2])
	assert.Equal(t, got[1], random.repo)
	// run --worktree feature-auth: with =
	auth, work := w.inWorktree("feature-auth"), w.inWorktree("auth-work")
	assert.Equal(t, w.openShell(t, "--worktree=feature-auth run", "Branch name (press Enter to use 'feature-auth'): ", ""), auth.repo+" feature-auth")
	// run --worktree auth-work --branch-name feature/auth: two branches whose names
	// differ in signs only have a sandbox each
	assert.Equal(t, w.openShell(t, "--worktree=auth-work --branch-name feature/auth run"), work.repo+" feature/auth")
	// list-worktrees
	branches := map[string]string{}
	for path, tree := range w.worktreeStatuses(t) {
		branches[path] = tree.Branch
	}
	assert.DeepEqual(t, branches, map[string]string{w.repo: "main", random.repo: got[2], auth.repo: "feature-auth", work.repo: "feature/auth"})
	assert.Assert(t, is.Regexp(`(?m)^`+auth.repo+` +feature-auth +ralph-\S+ +running `, w.ok(t, "list-worktrees")))
	// list-containers: one for each branch, and named after it
	assert.DeepEqual(t, w.sandboxBranches(t), map[string]string{random.repo: got[2], auth.repo: "feature-auth", work.repo: "feature/auth"})
	// remove-worktree feature-auth: its sandbox goes too, its branch stays
	w.ok(t, "remove-worktree", "feature-auth")
	_, err := os.Lstat(auth.repo)
	assert.Assert(t, os.IsNotExist(err))
	assert.Check(t, is.Contains(w.git(t, "branch", "--format=%(refname:short)"), "feature-auth"))
	assert.Equal(t, w.openShell(t, "--worktree=auth-work --branch-name feature/auth run"), work.repo+" feature/auth")
	assert.DeepEqual(t, w.sandboxBranches(t), map[string]string{random.repo: got[2], work.repo: "feature/auth"})
	w.ok(t, "remove-worktree", "auth-work") // the other branch is needed again
}

func branchHandling(t *testing.T, w *world) {
	at := func(name string) string { return w.inWorktree(name).repo + " " }
	const login, work = "Branch name (press Enter to use 'login-feature'): ", "Branch name (press Enter to use 'my-work'): "
	// run --worktree login-feature, and Enter
	assert.Equal(t, w.openShell(t, "--worktree=login-feature run", login, ""), at("login-feature")+"login-feature")
	// run --worktree my-work, with an existing branch
	assert.Equal(t, w.openShell(t, "--worktree=my-work run", work, "develop"), at("my-work")+"develop")
	// run --worktree my-work, with a new branch: one that is there is used again
	assert.Equal(t, w.openShell(t, "--worktree=my-work run"), at("my-work")+"develop")
	w.ok(t, "worktree", "rm", "my-work")
	assert.Equal(t, w.openShell(t, "--worktree=my-work run", work, "feature/new-login"), at("my-work")+"feature/new-login")
	// run --worktree test-work --branch-name feature/test
	assert.Equal(t, w.openShell(t, "--worktree=test-work --branch-name feature/test run"), at("test-work")+"feature/test")

	// yes "" | run --worktree auto-branch: what is piped is the prompt, and that has no end
	script := func(line string) result { return run(t, w.command("sh", "-c", line)) }
	res := script(`yes "" | docker ralph --worktree=auto-branch run`).expect(t, 1)
	assert.Check(t, is.Contains(res.stderr, "Created worktree .worktrees/auto-branch on the new branch auto-branch\n"))
	assert.Check(t, is.Contains(res.stderr, "Error: the prompt on standard input is longer than 16 MiB"))
	res = script(`echo 'echo asked in $PWD' | docker ralph --worktree=auto-branch run`).expect(t, 0)
	assert.Check(t, is.Contains(res.stdout, "\nasked in "+w.inWorktree("auto-branch").repo+"\n"))
	// run --worktree ci-"$BUILD_ID" --branch-name "$CI_BRANCH": without a terminal, a prompt is needed
	w.setenv("BUILD_ID", "17")
	w.setenv("CI_BRANCH", "ci/nightly")
	res = script(`docker ralph --worktree=ci-"$BUILD_ID" --branch-name "$CI_BRANCH" run -p 'git branch --show-current' </dev/null`).expect(t, 0)
	assert.Check(t, is.Contains(res.stdout, "\nci/nightly\n"))

	boxes := w.sandboxBranches(t)
	for name, branch := range map[string]string{
		"login-feature": "login-feature", "my-work": "feature/new-login", "test-work": "feature/test",
		"auto-branch": "auto-branch", "ci-17": "ci/nightly",
	} {
		assert.Check(t, is.Equal(boxes[w.inWorktree(name).repo], branch))
	}
}

func parallelUsage(t *testing.T, w *world) {
	auth, ui := w.inWorktree("feature-auth"), w.inWorktree("feature-ui")
	// run
	first := w.shell(t, "run")
	first.waitForPrompt(t, w.repo+" main")
	// run --worktree feature-auth, in another terminal: its branch is still there
	second := w.shell(t, "--worktree=feature-auth run")
	second.answer(t, "'feature-auth'): ", "")
	second.waitForPrompt(t, auth.repo+" feature-auth")
	// run --worktree feature-ui, in yet another one
	third := w.shell(t, "--worktree=feature-ui run")
	third.answer(t, "'feature-ui'): ", "")
	third.waitForPrompt(t, ui.repo+" feature-ui")

	second.press(t, "touch /tmp/only-here \"$npm_config_cache/shared\"; echo pu''t\r")
	second.screen.WaitFor(t, "put")
	for _, other := range []*terminal{first, third} {
		other.press(t, "test -e /tmp/only-here || echo is''olated; test -e \"$npm_config_cache/shared\" && echo has ca''che\r")
		other.screen.WaitFor(t, "isolated")
		other.screen.WaitFor(t, "has cache")
	}
	// Stopping one does not disturb the others.
	run(t, w.docker("stop", "-t", "0", w.worktreeStatuses(t)[auth.repo].Sandbox)).expect(t, 0)
	assert.Assert(t, second.wait(t).code != 0)
	for _, other := range []*terminal{first, third} {
		other.press(t, "echo still $((6*7)); exit\r")
		other.screen.WaitFor(t, "still 42")
		other.wait(t).expect(t, 0)
	}
}

func containerManagement(t *testing.T, w *world) {
	trees := w.worktreeStatuses(t)
	// list-containers
	states := map[string]string{}
	for _, s := range w.listed(t) {
		states[s.Worktree] = s.State
	}
	assert.Equal(t, states[w.repo]+" "+states[w.inWorktree("feature-auth").repo]+" "+states[w.inWorktree("feature-ui").repo], "running stopped running")
	// clean, and 1
	w.dialogue(t, "clean", askWhich, "1").expect(t, 0)
	assert.Equal(t, w.sandboxBranches(t)[w.repo], "")
	assert.Equal(t, len(w.sandboxBranches(t)), len(states)-1)
	// clean, and 2: asked again, as it is so much
	w.dialogue(t, "clean", askWhich, "2", askSure, "y").expect(t, 0)
	assert.Equal(t, len(w.containers(t))+len(w.volumes(t)), 0)
	// clean --force: without --all it is the current one
	w.openShell(t, "run")
	w.openShell(t, "--worktree=feature-auth run")
	assert.Equal(t, strings.Count(w.ok(t, "clean", "--force"), "\n"), 1)
	assert.DeepEqual(t, w.sandboxBranches(t), map[string]string{w.inWorktree("feature-auth").repo: "feature-auth"})
	w.ok(t, "clean", "--all", "--force")
	assert.Equal(t, len(w.containers(t))+len(w.volumes(t)), 0)

	left := w.worktreeStatuses(t)
	assert.Equal(t, len(left), len(trees))
	for path, tree := range left {
		assert.Check(t, is.Equal(tree.Branch, trees[path].Branch))
	}
}

func migration(t *testing.T, w *world) {
	auth := w.inWorktree("feature-auth")
	w.openShell(t, "run")
	auth.openShell(t, "run")
	// clean, and 2
	auth.dialogue(t, "clean", askWhich, "2", askSure, "y").expect(t, 0)
	assert.Equal(t, len(w.containers(t))+len(w.volumes(t)), 0)
	// list-containers: as of docker's own commands, headings only
	assert.Assert(t, is.Regexp(`^NAME +[A-Z ]+\n$`, w.ok(t, "list-containers")))
	// run, and run in a worktree
	assert.Equal(t, w.openShell(t, "run"), w.repo+" main")
	assert.Equal(t, auth.openShell(t, "run"), auth.repo+" feature-auth")
	// list-containers
	assert.DeepEqual(t, w.sandboxBranches(t), map[string]string{w.repo: "main", auth.repo: "feature-auth"})
	marked := slices.DeleteFunc(auth.listed(t), func(s manage.SandboxStatus) bool { return !s.Current })
	assert.Equal(t, len(marked), 1)
	assert.Equal(t, marked[0].Worktree, auth.repo)
}

// openShell starts the shell agent, or a shell, at a terminal, leaves it again, and
// returns the folder and the branch that it was in.
func (w *world) openShell(t *testing.T, args string, dialogue ...string) string {
	t.Helper()
	tm := w.shell(t, args)
	tm.answer(t, dialogue...)
	where := tm.waitForPrompt(t, "")
	tm.press(t, "exit\r")
	res := tm.wait(t).expect(t, 0)
	if len(dialogue) == 0 {
		assert.Check(t, !strings.Contains(res.stdout, "Branch name"))
	}
	w.assertTerminalRestored(t)
	return where
}

// waitForPrompt waits for a shell, and returns the folder and the branch that it is in.
// They have to be these, if some are given.
func (tm *terminal) waitForPrompt(t *testing.T, want string) (where string) {
	t.Helper()
	tm.press(t, "echo at $PWD $(git branch --show-current)\r")
	arrived := regexp.MustCompile(`at (/\S+ \S+)\r`)
	eventually(t, func() error {
		found := arrived.FindStringSubmatch(tm.screen.String())
		if found == nil {
			return errors.New("nobody answers: " + tm.screen.String())
		}
		where = found[1]
		return nil
	})
	if want != "" {
		assert.Equal(t, where, want)
	}
	return where
}

// sandboxBranches returns the branches of the sandboxes that are listed, by their worktree,
// and makes sure that each is a container of that name.
func (w *world) sandboxBranches(t *testing.T) map[string]string {
	t.Helper()
	var names []string
	for _, sb := range w.sandboxes(t) {
		names = append(names, sb.Name)
	}
	boxes := map[string]string{}
	for _, s := range w.listed(t) {
		assert.Check(t, slices.Contains(names, s.Name), s.Name)
		// Of two whose branches differ in signs only, the second one has a suffix.
		plain := "ralph-" + strings.ReplaceAll(w.slug, "/", "-") + "-" + strings.ReplaceAll(s.Branch, "/", "-")
		assert.Check(t, is.Regexp("^"+plain+"(-[0-9a-f]{6})?$", s.Name))
		boxes[s.Worktree] = s.Branch
	}
	assert.Equal(t, len(boxes), len(names))
	return boxes
}
