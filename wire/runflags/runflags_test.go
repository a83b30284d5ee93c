package runflags

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want Flags
		err  string
	}{
		{"nothing", nil, Flags{}, ""},
		{"model", []string{"--model", "sonnet"}, Flags{Model: "sonnet"}, ""},
		{"short", []string{"-m", "haiku", "-p", "say hello"}, Flags{Model: "haiku", Prompt: "say hello", Once: true}, ""},
		{"joined", []string{"--model=a=b", "--prompt=x"}, Flags{Model: "a=b", Prompt: "x", Once: true}, ""},
		{"prompt like a flag", []string{"-p", "--help"}, Flags{Prompt: "--help", Once: true}, ""},
		{"danger", []string{"--danger"}, Flags{Danger: true}, ""},
		{"help ends it", []string{"-h", "--nonsense"}, Flags{Help: true}, ""},
		{"no prompt", []string{"-p"}, Flags{Once: false}, "-p requires a value"},
		{"empty prompt", []string{"-p", ""}, Flags{}, "-p requires a value that is not empty"},
		{"no model", []string{"--model"}, Flags{}, "--model requires a value"},
		{"unknown", []string{"--shell"}, Flags{}, "unknown option '--shell'"},
		{"a word", []string{"hello"}, Flags{}, "unexpected argument 'hello'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.args)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, got, tc.want)
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "-p\nx", "--model=\n-m", "--prompt\n--help", "-h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := Parse(strings.Split(line, "\n"))
		if err == nil && got.Once && got.Prompt == "" {
			t.Errorf("%q yields an empty prompt", line)
		}
	})
}
