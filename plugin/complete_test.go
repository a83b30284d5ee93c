package plugin

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire/help"
)

func TestOfferedWordsAreSafeInShells(t *testing.T) {
	for word, plain := range map[string]bool{
		"auth/02": true, "größer": true, "v1.2_x:y@z": true, "feature/a-b": true, "a=b": true,
		"": false, "-rf": false, "=ls": false, "a b": false, "a\tb": false, "a\nb": false, "\xff": false,
		"$(touch x)": false, "${HOME}": false, "`id`": false, "a;b": false, "a&b": false, "a|b": false, "a>b": false,
		"~root": false, "{a,b}": false, "a*": false, "a?": false, "[a]": false, `a\b`: false, `a"b`: false, "a'b": false,
		"!!": false, "a#b": false, "\x1b[2J": false, "a\u202eb": false, strings.Repeat("x", 300): false,
	} {
		assert.Check(t, is.Equal(plainWord(word), plain), "%q", word)
	}
	assert.DeepEqual(t, plainWords([]string{"main", "$(id)", "x/y"}), []string{"main", "x/y"})
}

func TestDescriptionsAreSafeInShells(t *testing.T) {
	assert.Equal(t, plainText("Don't lose größe (again): 50%!"), "Don’t lose größe (again): 50%!")
	assert.Equal(t, plainText("a $(id) `id` \\ <(id) {a} \"b\" ~ ; & | \x1b[2J\tz"), "a ·(id) ·id· · ·(id) ·a· b · · · · ·[2J·z")
}

func FuzzPlainText(f *testing.F) {
	f.Add("a $(id) `id`")
	f.Add("größer\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		assert.Assert(t, !strings.ContainsAny(plainText(text), "$`\\\"'<>{}~;&|\n\t\x1b"))
		assert.Assert(t, !plainWord(text) || !strings.ContainsAny(text, "$`\\\"'<>{}()[]*?!#~;&| \n\t\x1b"))
	})
}

func TestCompletionOfTaskCommands(t *testing.T) {
	for _, tc := range []struct {
		args  []string
		typed string
		want  []string
	}{
		{nil, "", taskCommands()},
		{[]string{"show"}, "-", []string{"--format", "--with-deps"}},
		{[]string{"show", "a"}, "", []string{"--format", "--with-deps"}},
		{[]string{"show", "a", "--with-deps"}, "", []string{"--format"}},
		{[]string{"show", "a", "--format"}, "", []string{"table", "json"}},
		{[]string{"list"}, "", []string{"--status", "--assignee", "--format", "--all", "--markdown"}},
		{[]string{"list", "--status"}, "", []string{"open", "waiting", "active", "finished", "question", "blocked", "done", "deleted"}},
		{[]string{"list", "--assignee"}, "", nil},
		{[]string{"fail", "a", "--reason"}, "", nil},
		{[]string{"block", "a"}, "", []string{"--by", "--attempt"}},
		{[]string{"agent"}, "", []string{"register", "list", "deregister"}},
		{[]string{"plan-sync"}, "", []string{}},
		{[]string{"import", "a.json"}, "-", []string{"--from", "--prefix", "--format", "--dry-run"}},
		{[]string{"import", "--from"}, "", []string{"ralph", "prd", "taskmaster", "github", "beads", "spec-kit", "markdown"}},
		{[]string{"no-command"}, "", []string{}},
	} {
		t.Run(strings.Join(append(tc.args, tc.typed), " "), func(t *testing.T) {
			got, directive := dispatcher{}.completeTask(&cobra.Command{}, tc.args, tc.typed)
			assert.Equal(t, len(got), len(tc.want))
			for i := range got {
				assert.Equal(t, got[i], tc.want[i])
			}
			assert.Equal(t, directive, cobra.ShellCompDirectiveNoFileComp)
		})
	}
}

func TestCompletionOffersTheFilesToImport(t *testing.T) {
	got, directive := dispatcher{}.completeTask(&cobra.Command{}, []string{"import"}, "pr")
	assert.Equal(t, len(got), 0)
	assert.Equal(t, directive, cobra.ShellCompDirectiveDefault)
}

// Each flag in the help of a task command is offered.
func TestCompletionOffersTheFlagsOfTaskCommands(t *testing.T) {
	command, checked := "", 0
	for line := range strings.Lines(help.Text("task")) {
		if m := regexp.MustCompile(`^  ([a-z-]+)( |$)`).FindStringSubmatch(line); m != nil {
			command = m[1]
		}
		if !strings.HasPrefix(line, "  ") || command == "" {
			command = ""
			continue
		}
		offered := strings.Join(slices.Concat(taskUsageOf(command).flags, taskUsageOf(command).switches), " ")
		for _, flag := range regexp.MustCompile(`(?:^|[ \[])(--?[a-z][a-z-]*)`).FindAllStringSubmatch(line, -1) {
			checked++
			name := cmp.Or(longTaskFlags()[flag[1]], flag[1])
			assert.Check(t, is.Contains(" "+offered+" ", " "+name+" "), "%s", command)
		}
	}
	assert.Assert(t, checked > 40, "only %d flags", checked)
}
