package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"
)

func load(t *testing.T, dir string) map[string]string {
	t.Helper()
	prompts, err := LoadPrompts(dir)
	assert.NilError(t, err)
	texts := map[string]string{}
	for _, p := range prompts {
		texts[p.Skill] = p.Text
	}
	return texts
}

func TestBuiltinPromptsAreSkills(t *testing.T) {
	texts := load(t, t.TempDir())
	for skill, wants := range map[string][]string{
		"ralph-plan":  {"!`ralph task list --all --markdown`", "ralph task plan-sync", "`specs/`", "`deps`"},
		"ralph-build": {"!`ralph task peek -n 10`", "!`ralph task --help`", "$RALPH_AGENT_ID", `--result '{"commit":"<sha>"}'`, "ralph task fail"},
		"ralph-spec":  {"specs/README.md", "Out of scope"},
	} {
		text := texts[skill]
		assert.Assert(t, strings.HasPrefix(text, "---\nname: "+skill+"\ndescription: "), skill)
		for _, want := range wants {
			assert.Check(t, cmp.Contains(text, want), skill)
		}
		// Claude replaces these by the arguments of the slash command.
		for _, placeholder := range []string{"$ARGUMENTS", "$0", "$1", "$2"} {
			assert.Check(t, !strings.Contains(text, placeholder), "%s has %s", skill, placeholder)
		}
	}
}

func TestRepositoryPrompts(t *testing.T) {
	ours := load(t, t.TempDir())
	dir := fs.NewDir(t, "prompts",
		fs.WithFile("plan.md", "Plan like this.\r\n"),
		fs.WithFile("build.md", "---\nname: ralph-build\ndescription: mine\n---\nBuild.\n"))
	texts := load(t, dir.Path())
	matter, _, _ := strings.Cut(ours["ralph-plan"], "# Plan")
	assert.Equal(t, texts["ralph-plan"], matter+"Plan like this.\n")
	assert.Equal(t, texts["ralph-build"], "---\nname: ralph-build\ndescription: mine\n---\nBuild.\n")
	assert.Equal(t, texts["ralph-spec"], ours["ralph-spec"])
}

func TestRefusedPrompt(t *testing.T) {
	ours, err := RefusedPrompt("")
	assert.NilError(t, err)
	assert.Equal(t, strings.Count(ours, RefusedMark), 1)
	for _, want := range []string{"only the user", "Do not try these again", "ralph task fail"} {
		assert.Check(t, cmp.Contains(ours, want))
	}
	for _, tc := range []struct{ name, own, want string }{
		{"none", "", ours},
		{"with a place for the list", "Refused: {refused}.\r\n", "Refused: {refused}.\n"},
		{"without one", "Keep off.\n", "Keep off.\n\n{refused}\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := fs.NewDir(t, "prompts")
			if tc.own != "" {
				assert.NilError(t, os.WriteFile(dir.Join("refused.md"), []byte(tc.own), 0o644))
			}
			text, err := RefusedPrompt(dir.Path())
			assert.NilError(t, err)
			assert.Equal(t, text, tc.want)
		})
	}
	dir := fs.NewDir(t, "prompts", fs.WithFile("refused.md", " \n"))
	_, err = RefusedPrompt(dir.Path())
	assert.ErrorContains(t, err, "refused.md is empty")
}

func TestFrontMatter(t *testing.T) {
	const model = "---\nname: ours\n---\nOur words.\n"
	for _, tc := range []struct{ name, text, want string }{
		{"none", "Build.\n", "---\nname: ours\n---\nBuild.\n"},
		{"its own", "---\nname: x\n---\nBuild.\n", "---\nname: x\n---\nBuild.\n"},
		{"nothing else", "---\nname: x\n---", "---\nname: x\n---"},
		{"empty", "---\n---\nBuild.\n", "---\n---\nBuild.\n"},
		{"a ruler", "---\n\nBuild.\n", "---\nname: ours\n---\n---\n\nBuild.\n"},
		{"a longer ruler", "----\nBuild.\n---\n", "---\nname: ours\n---\n----\nBuild.\n---\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, withFrontMatter(tc.text, model), tc.want)
		})
	}
}

func TestInvalidPromptsAreRejected(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		make       func(path string) error
	}{
		{"empty", "is empty", func(p string) error { return os.WriteFile(p, []byte(" \n"), 0o600) }},
		{"folder", "not a regular file", func(p string) error { return os.Mkdir(p, 0o700) }},
		{"too large", "larger than 1 MiB", func(p string) error { return os.WriteFile(p, make([]byte, maxPromptSize+1), 0o600) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			assert.NilError(t, tc.make(filepath.Join(dir, "plan.md")))
			_, err := LoadPrompts(dir)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestRepositoryWithoutPromptsUsesBuiltin(t *testing.T) {
	builtin, err := BuiltinPrompts()
	assert.NilError(t, err)
	loaded, err := LoadPrompts(t.TempDir())
	assert.NilError(t, err)
	assert.DeepEqual(t, builtin, loaded)
	assert.Equal(t, len(builtin), 3)
}

// FuzzFrontMatter: whatever a repository writes, the skill is named and says
// all of it.
func FuzzFrontMatter(f *testing.F) {
	for _, seed := range []string{"", "Build.\n", "---\nname: x\n---\nBuild.", "---", "---\n", "\r\n---\r\n", "----\n"} {
		f.Add(seed)
	}
	builtin, err := BuiltinPrompts()
	assert.NilError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		got := withFrontMatter(text, builtin[0].Text)
		assert.Assert(t, strings.HasPrefix(got, frontMatterFence))
		assert.Assert(t, strings.HasSuffix(got, text))
		if !strings.HasPrefix(text, frontMatterFence) || !strings.Contains(text[len(frontMatterFence)-1:], "\n---") {
			assert.Assert(t, strings.HasPrefix(got, "---\nname: ralph-plan\ndescription: "))
		}
	})
}
