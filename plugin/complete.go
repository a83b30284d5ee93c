package plugin

import (
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// completeForwarded offers what follows a forwarded command. It is ralph's, which
// has no completion of its own.
func (d dispatcher) completeForwarded(name string) cobra.CompletionFunc {
	words := map[string][]string{
		"plan":       {"--max-iterations", "--model", "--danger", "--help"},
		"build":      {"--max-iterations", "--model", "--danger", "--help"},
		runCommand:   {"--model", "--prompt", "--danger", "--help"},
		shellCommand: {"--", "--help"},
	}[name]
	if name == "task" {
		return d.completeTask
	}
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// plainWord reports whether a word can be offered to every shell. Who makes a branch
// or a task may be an agent, and completion scripts of some versions have the
// shell expand what they are offered: it would run a command that a name holds.
func plainWord(word string) bool {
	return word != "" && len(word) <= wordMax && !strings.ContainsRune("-=%+", rune(word[0])) &&
		!strings.ContainsFunc(word, func(r rune) bool { return !isLetter(r) && !strings.ContainsRune("_./@:+-=,%", r) })
}

// wordMax bounds a word that is offered, in bytes.
const wordMax = 200

func isLetter(r rune) bool { return unicode.In(r, unicode.Letter, unicode.Mark, unicode.Number) }

// plainText is a stranger's text as a description, without what any shell could
// expand.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\'':
			return '’' // as in "don't"
		case isLetter(r), strings.ContainsRune(" _./@:+-=,%()[]#!?’…", r):
			return r
		}
		return '·'
	}, text)
}

// plainWords are those that can be offered.
func plainWords(words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !plainWord(word) })
}
