package plugin

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func TestWorktreeOptions(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		want   *host.Worktree
		parse  string
		refuse string
	}{
		{args: nil},
		{args: []string{"--worktree"}, want: &host.Worktree{}},
		{args: []string{"--worktree=x"}, want: &host.Worktree{Name: "x"}},
		{args: []string{"--worktree=x", "--branch-name", "b/c"}, want: &host.Worktree{Name: "x", Branch: "b/c"}},
		{args: []string{"--worktree", "--branch-name=b"}, want: &host.Worktree{Branch: "b"}},
		{args: []string{"--worktree=random"}, want: &host.Worktree{Name: "random"}},
		{args: []string{"--worktree="}, parse: "empty worktree name"},
		{args: []string{"--branch-name=b"}, refuse: "requires --worktree"},
		{args: []string{"--branch-name="}, refuse: "--branch-name is empty"},
		{args: []string{"--worktree=x", "--branch-name="}, refuse: "--branch-name is empty"},
	} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		var o worktreeOptions
		o.addFlags(flags)
		err := flags.Parse(tc.args)
		if tc.parse != "" {
			assert.ErrorContains(t, err, tc.parse)
			continue
		}
		assert.NilError(t, err)
		got, err := o.wanted()
		if tc.refuse != "" {
			assert.ErrorContains(t, err, tc.refuse)
			continue
		}
		assert.NilError(t, err)
		assert.DeepEqual(t, got, tc.want)
	}
}

func TestWriteWorktrees(t *testing.T) {
	two, none := 2, 0
	list := []manage.WorktreeStatus{
		{Path: "/shop", Branch: "main", State: "not found", Changes: &none, Main: true},
		{
			Name: "x", Path: "/shop/.worktrees/x", Branch: "feature/x", Sandbox: "ralph-a-b-feature-x", State: "running",
			Against: "origin/x", Ahead: &two, Behind: &none, Changes: &two, Current: true,
		},
		{Name: "y", Path: "/shop/.worktrees/y", State: "unknown"},
	}
	for _, tc := range []struct{ name, format, want string }{
		{"table", "table", `PATH BRANCH SANDBOX STATE AHEAD BEHIND CHANGES
/shop main not found 0
/shop/.worktrees/x (current) feature/x ralph-a-b-feature-x running 2 0 2
/shop/.worktrees/y unknown gone`},
		{"own table", `table {{.Name}}\t{{.Against}}`, "NAME AGAINST\n\nx origin/x\ny"},
		{"template", "{{.Branch}}={{.Current}},{{.Main}}", "main=false,true\nfeature/x=true,false\n=false,false"},
		{"template in JSON", "{{json .Sandbox}}", "\"\"\n\"ralph-a-b-feature-x\"\n\"\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			assert.NilError(t, writeWorktrees(&out, tc.format, list))
			assert.Equal(t, words(out.String()), tc.want)
		})
	}
	var out bytes.Buffer
	assert.NilError(t, writeWorktrees(&out, "json", list))
	var read []map[string]any
	assert.NilError(t, json.Unmarshal(out.Bytes(), &read))
	assert.Equal(t, len(read), 3)
	assert.Check(t, is.Equal(read[1]["ahead"], 2.0))
	assert.Check(t, is.Equal(read[2]["changes"], nil))
	assert.ErrorContains(t, writeWorktrees(&out, "", list), "empty --format")
	assert.ErrorContains(t, writeWorktrees(&out, "{{.Nothing}}", list), "Nothing")
}
