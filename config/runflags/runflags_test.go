package runflags

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// The loops' command lines are tested in package cli.
func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want Given
		err  string
	}{
		{"nothing", nil, Given{}, ""},
		{"model", []string{"--model", "sonnet"}, Given{Model: "sonnet"}, ""},
		{"short", []string{"-m", "haiku", "-p", "say hello"}, Given{Model: "haiku", Prompt: "say hello"}, ""},
		{"joined", []string{"--model=a=b", "--prompt=x"}, Given{Model: "a=b", Prompt: "x"}, ""},
		{"prompt like a flag", []string{"-p", "--help"}, Given{Prompt: "--help"}, ""},
		{"danger", []string{"--danger"}, Given{Danger: "true"}, ""},
		{"help ends it", []string{"-h", "--nonsense"}, Given{Help: "true"}, ""},
		{"no prompt", []string{"-p"}, nil, "--prompt requires a value"},
		{"empty prompt", []string{"-p", ""}, nil, "--prompt requires a value"},
		{"no model", []string{"--model"}, nil, "--model requires an alias"},
		{"value of a switch", []string{"--danger=x"}, nil, "Unknown option '--danger=x'"},
		{"unknown", []string{"--shell"}, nil, "Unknown option '--shell'\nRun 'ralph run --help' for usage"},
		{"a word", []string{"hello"}, nil, "Unknown option 'hello'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Of(Run).Parse(tc.args)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, got, tc.want)
		})
	}
}

func TestHelp(t *testing.T) {
	for _, name := range []string{Plan, Build, Run, Shell} {
		text := Of(name).Help()
		assert.Check(t, strings.HasPrefix(text, "Usage: ralph "+name+" [options]"))
		for line := range strings.Lines(text) {
			assert.Check(t, len(line) <= helpWidth+1 && line != " \n", "%q", line)
		}
		for _, f := range Of(name).Flags {
			assert.Check(t, is.Contains(text, " --"+f.Name+" "))
		}
	}
	assert.Check(t, is.Contains(Of(Build).Help(), `
      --stall N            End the loop after N runs in a row without a commit
                           or a finished task (default: 3, off with -n)
      --idle MINUTES `))
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "-p\nx", "--model=\n-m", "--prompt\n--help", "-h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		given, err := Of(Run).Parse(strings.Split(line, "\n"))
		if prompt, once := given[Prompt]; err == nil && once && prompt == "" {
			t.Errorf("%q yields an empty prompt", line)
		}
	})
}
