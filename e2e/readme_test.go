//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// The README's commands run as printed, in order, in one shell, and print what
// it shows.

func TestReadmeTour(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.useDefaults()
		w.write(t, filepath.Join(w.config, "ralph", "config.toml"), "[image]\nbase = \""+engines.BaseImage()+"\"\n")
		steps := readme(t, "Try it without a key")
		assert.Assert(t, len(steps) > 20, "only %d commands", len(steps))
		w.runSteps(t, filepath.Join(w.dir, "src"), steps)

		shop := filepath.Join(w.dir, "src", "shop")
		w.repo = shop
		assert.Equal(t, w.git(t, "log", "--reverse", "--format=%s|%an"),
			"First commit|Una User\nAdd a greeting|Una User\nAdd a reply|Una User\nCheck the greeting|Una User\nGreet twice|Una User\nAdd a search|Una User")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		assert.Equal(t, len(w.containers(t)), 0)
	})
}

// The documented URL serves the script and a release with the plugin that is tested.
func TestReadmeInstall(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		if os.Getuid() == 0 {
			w = newRootWorld(t, w.engine) // the installer looks up the user's name
		}
		w.useDefaults()
		plugin, err := os.ReadFile(shared.plugin)
		assert.NilError(t, err)
		files := release(t, releaseName, string(plugin))
		script, err := os.ReadFile(filepath.Join(shared.root, "scripts", "install.sh"))
		assert.NilError(t, err)
		files["install.sh"] = string(script)
		bin := filepath.Join(w.dir, "bin")
		for name, content := range files {
			w.write(t, filepath.Join(w.dir, "release", name), content)
		}
		w.writeProgram(t, filepath.Join(bin, "curl"), "out=/dev/stdout\n"+fakeCurl(filepath.Join(w.dir, "release")))
		w.writeProgram(t, filepath.Join(bin, "gh"), "exit 1\n") // it would require a signature
		w.prependPath(bin)
		assert.NilError(t, os.Remove(filepath.Join(w.config, "cli-plugins", "docker-ralph")))

		w.runSteps(t, w.repo, readme(t, "Install"))

		info, err := os.Lstat(filepath.Join(w.config, "cli-plugins", "docker-ralph"))
		assert.NilError(t, err)
		assert.Assert(t, info.Mode().IsRegular())
	})
}

// The model is played by a script, Claude Code is real.
func TestReadmeFirstRun(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.newProject(t)
		api := w.readmeModel(t, w.buildTurns("hello", "hello.txt"))
		w.runSteps(t, filepath.Dir(w.repo), readme(t, "First run"))
		assert.Equal(t, w.git(t, "rev-list", "--count", "HEAD"), "2")
		for _, r := range api.Requests() {
			assert.Equal(t, r.Key, "sk-ant-...")
		}
	})
}

func TestReadmeNight(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.newProject(t)
		w.write(t, filepath.Join(w.repo, "Makefile"), "test:\n")
		w.git(t, "add", "Makefile")
		w.git(t, "commit", "-qm", "Add make test")
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-...")
		w.readmeModel(t,
			[]modelapi.Turn{modelapi.Bash("mkdir specs && echo '# Shop' > specs/shop.md && git add specs && git commit -qm 'Add a spec'"), modelapi.Say("Written.")},
			[]modelapi.Turn{modelapi.Bash(syncPlan), modelapi.Say("Planned.")},
			w.buildTurns("shop/01", "one"), w.buildTurns("shop/02", "two"), w.buildTurns("shop/03", "three"))
		w.runSteps(t, w.repo, readme(t, "A night"))
		assert.Equal(t, w.git(t, "rev-list", "--count", "HEAD"), "7")
		report, err := os.Stat(filepath.Join(w.repo, "ralph-report.html"))
		assert.NilError(t, err)
		assert.Assert(t, report.Size() > 0)
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	})
}

// TestReadmeSectionsRun finds console blocks outside of the sections that are run.
func TestReadmeSectionsRun(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(shared.root, "README.md"))
	assert.NilError(t, err)
	var sections []string
	for _, section := range strings.Split(string(content), "\n## ")[1:] {
		if strings.Contains(section, "\n```console\n") {
			title, _, _ := strings.Cut(section, "\n")
			sections = append(sections, title)
		}
	}
	assert.DeepEqual(t, sections, []string{"Install", "First run", "A night", "Try it without a key"})
	first, _, _ := strings.Cut(string(content), "\n## ")
	assert.Assert(t, !strings.Contains(first, "```"))
}

func (w *world) writeProgram(t *testing.T, path, script string) {
	t.Helper()
	w.write(t, path, "#!/bin/sh\n"+script)
	assert.NilError(t, os.Chmod(path, 0o755))
}

// newProject makes a repository "my-project" without tasks and specs, and has claude as its agent.
func (w *world) newProject(t *testing.T) {
	t.Helper()
	base := claudeBase(t, w)
	w.write(t, filepath.Join(w.config, "ralph", "config.toml"), "[image]\nbase = \""+base+"\"\n")
	w.repo = filepath.Join(w.dir, "src", "my-project")
	assert.NilError(t, os.Mkdir(w.repo, 0o755))
	w.chown(t, w.repo)
	w.git(t, "init", "-q")
	w.git(t, "remote", "add", "origin", "https://git.example/"+w.slug+".git")
	w.git(t, "commit", "-q", "--allow-empty", "-m", "first")
}

// readmeModel plays the model of the next commands.
func (w *world) readmeModel(t *testing.T, sessions ...[]modelapi.Turn) *modelapi.Server {
	t.Helper()
	api, url := w.serveModel(t, sessions)
	w.setenv("ANTHROPIC_BASE_URL", url)
	return api
}

// step is a command of the README and the output below it. A line "..." stands for
// any number of lines, "(...)" for anything in parentheses.
type step struct {
	command string
	output  []string
}

// readme returns the commands in the console blocks of one of the README's
// sections.
func readme(t *testing.T, section string) []step {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(shared.root, "README.md"))
	assert.NilError(t, err)
	_, text, found := strings.Cut(string(content), "\n## "+section+"\n")
	assert.Assert(t, found, "no section %q", section)
	text, _, _ = strings.Cut(text, "\n## ")
	var steps []step
	for _, block := range regexp.MustCompile("(?s)\n```console\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSuffix(line, "\n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, step{command: command})
				continue
			}
			assert.Assert(t, len(steps) > 0, "output before the first command: %s", line)
			last := &steps[len(steps)-1]
			last.output = append(last.output, line)
		}
	}
	return steps
}

// runSteps runs the steps in a shell. The repository's origin is the world's, and
// each command may take as long as any other command of a test.
func (w *world) runSteps(t *testing.T, dir string, steps []step) {
	t.Helper()
	// The interface of an agent needs somebody at a terminal: it gets what is typed as a prompt.
	slug := strings.NewReplacer("acme/shop", w.slug, "docker ralph run  ", "docker ralph run -p /ralph-spec ")
	script := "set -e; exec 2>&1\n"
	for i, s := range steps {
		script += fmt.Sprintf("echo '%s'\n%s\n", marker(i), slug.Replace(s.command))
	}
	cmd := w.command("bash", "-c", script)
	cmd.Dir = dir
	shell := start(t, cmd)
	for i := range steps {
		shell.waitForOutput(t, marker(i)+"\n")
	}
	said := shell.wait(t)
	for i, s := range steps {
		_, output, _ := strings.Cut(said.stdout, marker(i)+"\n")
		output, _, _ = strings.Cut(output, marker(i+1)+"\n")
		if len(s.output) > 0 {
			assert.Check(t, is.Regexp(w.outputPattern(s.output), w.normalizeOutput(output)), "%s", s.command)
		}
	}
	said.expect(t, 0)
}

// marker is printed before a step.
func marker(i int) string { return fmt.Sprintf("=== step %d ===", i) }

// waitForOutput waits until the process has printed this, or has ended.
func (p *process) waitForOutput(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() error {
		select {
		case <-p.done:
			return nil
		default:
		}
		if said := p.stdout.String(); !strings.Contains(said, text) {
			return fmt.Errorf("no %q in: %s", text, said)
		}
		return nil
	})
}

// outputPattern returns the pattern of an output that the README shows.
func (w *world) outputPattern(lines []string) string {
	pattern := "^"
	for _, line := range lines {
		if line == "..." {
			pattern += `(?s:.*)`
			continue
		}
		quoted := regexp.QuoteMeta(w.normalizeOutput(line))
		pattern += `(?m:^` + strings.ReplaceAll(quoted, `\(\.\.\.\)`, `\([^)]*\)`) + "$)\n"
	}
	return pattern + "$"
}

// normalizeOutput replaces what is different in each world and run, and where columns begin.
func (w *world) normalizeOutput(output string) string {
	output = strings.NewReplacer(w.slug, "acme/shop", strings.ReplaceAll(w.slug, "/", "-"), "acme-"+path.Base("acme/shop")).Replace(output)
	output = regexp.MustCompile(` {2,}`).ReplaceAllString(w.normalize(output), "  ")
	output = regexp.MustCompile(`(?m)[\d,]+  \$[\d.]+$`).ReplaceAllString(output, "TOKENS  COST")
	return regexp.MustCompile(`tokens: [\d,]+ \| cost: \$[\d.]+`).ReplaceAllString(output, "tokens: TOKENS | cost: COST")
}
