package task

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// hostile clears the screen, sets the title, writes to the clipboard, ends a line
// and changes colours, with 7-bit and 8-bit sequences.
const hostile = "x\x1b[2J\x1b]0;owned\a\x1b]52;c;Zm9v\x1b\\\r\b\x00\u009b31m\u0085\x7f\xffy"

func runHere(t *testing.T, stdin string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	io := streams(&out, &complaints)
	io.Stdin = strings.NewReader(stdin)
	io.Getenv = func(name string) string {
		return map[string]string{"HOSTNAME": hostile, "RALPH_SCOPE_REPO": "acme/shop", "RALPH_SCOPE_BRANCH": "main"}[name]
	}
	Run(t.Context(), args, io)
	return out.String(), complaints.String()
}

func TestOutputHasNoControlSequences(t *testing.T) {
	t.Chdir(newRepo(t))
	text, err := json.Marshal(hostile)
	assert.NilError(t, err)
	idText, err := json.Marshal(strings.NewReplacer("\r", "", "\u0085", "").Replace(hostile)) // without white space
	assert.NilError(t, err)
	line := strings.NewReplacer("H", string(text), "I", string(idText)).Replace(`{"id":I,"t":H,"d":H,"cat":H,"spec":H,"ref":H,"steps":[H],"deps":["blocker"]}`)
	_, complaint := runHere(t, line+"\n"+`{"id":"blocker","t":"B"}`, "plan-sync")
	assert.Equal(t, complaint, "")
	store, err := backlog.Open(t.Context(), ".ralph/tasks.db", backlog.Scope{Repo: "acme/shop", Branch: "main"})
	assert.NilError(t, err)
	defer func() { assert.Check(t, store.Close()) }()
	tasks, err := store.List(t.Context(), backlog.Filter{})
	assert.NilError(t, err)
	id := tasks[0].Slug

	assertStripped := func(stdout, stderr string) {
		t.Helper()
		for _, printed := range []string{stdout, stderr} {
			assert.Assert(t, !regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}]|owned|Zm9v|\[2J`).MatchString(printed), "%q", printed)
		}
	}
	result := "{\"commit\":\"\u009b\u009d1\",\n\"note\":\"\x7f\"}"
	for _, args := range [][]string{
		{"claim", "blocker", "--agent", hostile},
		{"done", "blocker", "--result", result},
		{"list"},
		{"list", "--markdown"},
		{"peek"},
		{"show", id, "--with-deps"},
		{"deps", id},
		{"show", hostile + "?"},
		{"claim", id, "--agent", hostile},
		{"renew", id},
		{"renew", id, "--agent", hostile},
		{"list"},
		{"peek"},
		{"fail", id, "--reason", hostile},
		{"show", id},
		{"show", id, "--format", "json"},
		{"claim", id},
		{"ask", id, hostile, "--option", hostile, "--default", hostile},
		{"questions"},
		{"questions", "--format", "json"},
		{"show", id},
		{"answer", id, hostile},
		{"peek"},
		{"show", id},
		{"reopen", id, "--reason", hostile},
		{"block", "blocker", "--by", id},
		{"deps", "blocker"},
		{"create", "new" + hostile, hostile, hostile},
		{"create", "new" + hostile, hostile},
		{"update", id, "--status", hostile},
		{hostile},
		{"claim", "--lease", hostile},
		{"agent", hostile},
		{"agent", "register"},
		{"agent", "list"},
		{"delete", id, hostile},
		{"_render-md", line},
		{"_render-md", line + hostile},
		{"_get-scope"},
	} {
		stdout, stderr := runHere(t, "", args...)
		assert.Assert(t, stdout+stderr != "", "%q", args)
		if args[len(args)-1] == "json" { // escaped
			assert.Assert(t, json.Valid([]byte(stdout)))
			assert.Equal(t, termsafe.Strip(stdout), stdout)
			continue
		}
		assertStripped(stdout, stderr)
	}
	assertStripped(runHere(t, strings.Replace(line, `"blocker"`, `"nobody`+"\u009b"+`"`, 1), "plan-sync"))
	assertStripped(runHere(t, hostile, "plan-sync"))
}

func TestStrippedResultsAreValidJSON(t *testing.T) {
	for _, text := range []string{
		"{\"a\":\"\u009b\"}", "{\"a\":\"\u009d\x7f\", \n\t\"b\":\"\\u001b]0;\"}", "no json \x1b[", "\u009b\"", "\xff", `"\ud800"`,
	} {
		var out bytes.Buffer
		s := &session{out: bufio.NewWriter(&out)}
		s.print(compactJSON(text))
		assert.NilError(t, s.out.Flush())
		assert.Assert(t, json.Valid(out.Bytes()), "%q: %q", text, out.String())
		assert.Assert(t, !strings.Contains(out.String(), "\n"))
		if json.Valid([]byte(text)) {
			var want, got any
			assert.NilError(t, json.Unmarshal([]byte(text), &want))
			assert.NilError(t, json.Unmarshal(out.Bytes(), &got))
			assert.DeepEqual(t, got, want)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// counted counts how often it was formatted.
type counted struct{ times *int }

func (c counted) String() string {
	*c.times++
	return strings.Repeat("x", outputBuffer)
}

// The dependencies of a long chain are indented more and more, which took minutes.
func TestNothingIsFormattedForAFullWriter(t *testing.T) {
	times := 0
	s := &session{out: bufio.NewWriterSize(full{}, outputBuffer)}
	for range 10 {
		s.printf("%s", counted{&times})
	}
	assert.Assert(t, times <= 2, "%d", times)
}
