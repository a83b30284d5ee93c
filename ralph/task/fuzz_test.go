package task

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Any arguments succeed or fail with an error, and leave a readable backlog.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		"create\na/01\nFirst\n-p\n1\n-s\n[\"x\"]\n--deps\nb, c", "create\n'a'\n", "claim\n--lease\n0", "claim\na/01\n--agent\nx",
		"done\na/01\n--result\n{\"commit\":\"1\"}", "fail\na/01\n--reason\n", "renew\na\n--lease\n-5", "list\n--status\nopen,,done\n--markdown",
		"list\n--all\n--assignee\nx", "show\na/01\n--with-deps", "peek\n-n\n-1", "deps\na/01", "block\na\n--by\na", "unblock\na\n--by\nb",
		"update\na\n--priority\nx\n--steps\n[]\n--status\nactive", "delete\n--all\n--confirm", "delete\n--status\nopen\n--spec\ns", "plan-status\nx",
		"agent\nregister", "agent\nlist", "list\n--status\nfinished", "show\na/01\n--format\njson", "agent\nderegister\nx", "agent\n", "plan-sync", "ask\na/01\nWhy?\n--option\nx\n--default-after\n8h", "answer\na/01\nx", "questions\n--format\njson", "export\n--format\njson", "create\n\x1b[2J\n\u202ex",
	} {
		f.Add(seed)
	}
	store, err := backlog.Open(f.Context(), f.TempDir()+"/.ralph/tasks.db", backlog.Scope{Repo: "acme/shop", Branch: "main"})
	assert.NilError(f, err)
	f.Cleanup(func() { assert.Check(f, store.Close()) })
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		cmd, known := commands()[args[0]]
		if !known || args[0] == "import" { // which opens files
			return
		}
		var stdout, stderr bytes.Buffer
		s := &session{IO: streams(&stdout, &stderr), out: bufio.NewWriter(&stdout), store: store}
		code := s.report(cmd.run(t.Context(), s, args[1:]))
		assert.NilError(t, s.out.Flush())
		printed := stderr.String()
		switch code {
		case exitOK:
			assert.Equal(t, printed, "")
		case exitFailure:
			assert.Assert(t, strings.HasPrefix(printed, "Error: "), printed)
		case exitNothing:
			assert.Assert(t, strings.HasPrefix(printed, "Error: ") || printed == "No eligible tasks\n" || printed == "Task not eligible\n", printed)
		default:
			t.Fatalf("exit code %d", code)
		}
		for _, text := range []string{printed, stdout.String()} {
			assert.Equal(t, termsafe.Strip(text), text)
		}
		_, err := store.List(t.Context(), backlog.Filter{All: true})
		assert.NilError(t, err)
	})
}
