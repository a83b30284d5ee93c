package microvm

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Output of the real programs (contract, section 6).
const (
	full = `{"sandboxes":[
  {"name":"demo","id":"9b6dbdf3-2ef4-47cb-8f55-55b26a790c8b","agent":"shell","status":"running",
   "workspaces":["/abs/path","/ref:ro"],
   "ports":[{"host_ip":"127.0.0.1","host_port":8080,"sandbox_port":3000,"protocol":"tcp4"}],
   "workspace_missing":false,"created_at":"2026-11-01T10:00:00Z","last_used_at":"2026-11-01T10:05:00Z"},
  {"name":"other","agent":"claude","status":"stopped","workspaces":[]}
]}
`
	pluginList = `{"vms":[{"name":"claude-vm","agent":"claude","status":"running","socket_path":"/Users/u/.docker/sandboxes/vm/claude-vm/docker-1234567890.sock","sandbox_count":2,"workspaces":["/home/u/my-project","/ref:ro"]},{"name":"gemini-vm","agent":"gemini","status":"stopped","sandbox_count":0}]}`
	starts     = "Starting sandboxd daemon...\nDaemon started (PID: 4711, socket: /s.sock)\nLogs: /tmp/{x}\n"
	notice     = "\n╭────────────────────────────────────╮\n│ Docker Sandboxes Update Available │\n│ {0.53.0} → 0.54.0                 │\n╰────────────────────────────────────╯\n"
)

func TestParseListing(t *testing.T) {
	for _, tc := range []struct {
		name, output, root string
		names, err         string
	}{
		{name: "everything", output: full, names: "demo:running other:stopped"},
		{name: "the plugin", output: pluginList, root: "vms", names: "claude-vm:running gemini-vm:stopped"},
		{name: "empty", output: `{"sandboxes":[]}`},
		{name: "null", output: `{"sandboxes":null}`},
		{name: "lines before", output: starts + full, names: "demo:running other:stopped"},
		{name: "a notice behind", output: full + notice, names: "demo:running other:stopped"},
		{name: "both, CRLF", output: strings.ReplaceAll(starts+full+notice, "\n", "\r\n"), names: "demo:running other:stopped"},
		{name: "a bare list", output: `[{"name":"a","status":"running"}]`, err: "no JSON in"},
		{name: "few fields", output: `{"sandboxes":[{"name":"a","status":"creating"},{"name":"b","status":"removing"},{"name":"c"},{"name":"d","status":"paused"}]}`, names: "a:being created b:removing c:unknown d:unknown"},
		{name: "the other's list", output: pluginList, err: `no "sandboxes" in the JSON`},
		{name: "an error in JSON", output: `{"error":"backend unavailable"}`, err: `no "sandboxes" in the JSON`},
		{name: "nothing", output: "", err: "no JSON in"},
		{name: "words", output: "No sandboxes found.\n", err: "no JSON in"},
		{name: "the notice of removal", output: "docker sandbox has been removed. Use sbx.\n", root: "vms", err: "no JSON in"},
		{name: "half", output: full[:120], err: "parsing the JSON"},
		{name: "trailing data", output: full + "panic: x\n", err: "unexpected data after the JSON"},
		{name: "two answers", output: full + full, err: "unexpected data after the JSON"},
		{name: "no name", output: `{"sandboxes":[{"status":"running"}]}`, err: "empty or duplicate"},
		{name: "one name twice", output: `{"sandboxes":[{"name":"a"},{"name":"a"}]}`, err: "empty or duplicate"},
		{name: "a number as status", output: `{"sandboxes":[{"name":"a","status":1}]}`, err: "parsing the list"},
		{name: "an object as list", output: `{"sandboxes":{}}`, err: "parsing the list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := tc.root
			if root == "" {
				root = "sandboxes"
			}
			entries, err := ParseListing([]byte(tc.output), root)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			var names []string
			for _, e := range entries {
				names = append(names, e.Name+":"+string(e.State()))
			}
			assert.Equal(t, strings.Join(names, " "), tc.names)
		})
	}
}

func TestRootOfAnEntry(t *testing.T) {
	assert.Equal(t, Entry{}.Root(), "")
	assert.Equal(t, Entry{Workspaces: []string{"/a:ro", "/b"}}.Root(), "/a")
}

// FuzzParseListing checks that invalid output is an error and states are those of the output.
func FuzzParseListing(f *testing.F) {
	for _, seed := range []string{full, pluginList, starts + full + notice, `{"sandboxes":[]}`, `[]`, `{"sandboxes":null}`, full[:120], "{}", "{\"sandboxes\":[{\"name\":\"a\",\"status\":\"running\"}]} {", "\n{\n}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		entries, err := ParseListing(output, "sandboxes")
		if err != nil {
			assert.Equal(t, len(entries), 0)
			return
		}
		seen := map[string]bool{}
		for _, e := range entries {
			assert.Assert(t, e.Name != "" && !seen[e.Name])
			seen[e.Name] = true
			switch e.State() {
			case lifecycle.Running:
				assert.Equal(t, e.Status, "running")
			case lifecycle.Stopped:
				assert.Equal(t, e.Status, "stopped")
			case lifecycle.NotFound:
				t.Fatal("what is listed is there")
			}
		}
	})
}

func TestParseVersion(t *testing.T) {
	for output, want := range map[string]string{
		"sbx version: v0.39.0 1a2b3c4d5e\n":                            "0.39.0",
		"Client Version:  v0.24.2 abc\nServer Version:  Unavailable\n": "0.24.2",
		`{"client":{"version":"v0.53.1","commit":"1.2"}}`:              "0.53.1",
		starts + "sbx version: v10.0.123-rc1\n":                        "10.0.123",
	} {
		got, err := parseVersion([]byte(output))
		assert.NilError(t, err)
		assert.Equal(t, got, want, output)
	}
	for _, output := range []string{"", "devel", "1.2", "v1.x.3"} {
		_, err := parseVersion([]byte(output))
		assert.ErrorContains(t, err, "no version in")
	}
}
