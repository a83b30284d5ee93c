package config

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/config/imageref"
	"github.com/docker-ralph/docker-ralph/egress"
)

// The golden files show what a user sees; `go test ./config -update` writes
// them anew.
func TestFileErrors(t *testing.T) {
	for _, tc := range []struct{ name, content string }{
		{"unknown-keys", "agnet = 1\n[agent]\nimage = \"x\"\nzzz = 1\n[sandbox.network]\npolicy = \"deny\"\n[sandbox.netwrk.x]\n[sandbox]\n\"a.b\" = 1\n"},
		{"unknown-table-once", "[sandbx]\na = 1\nb = 2\n[sandbx.c]\nd = 1\n"},
		{"network", "[sandbox]\nruntime = \"../runsc\"\n[sandbox.network]\npolicy = \"allow\"\n" +
			"presets = [\"agent\", \"gti\"]\nallowed = [\"https://a.example/x\", \"*\", \"10.0.0.1\", \"b.example\", \"c.example:0\", \"d.example=8.8.8.8\"]\n"},
		{"types", "sandbox.driver = 1\nsandbox.enabled = \"no\"\nsandbox.resources = { memory = 8, cpus = true, pids = \"16\", timeout_minutes = 1.5 }\nenv.pass = \"A\"\nimage.base = []\nagent.model = {}\n"},
		{"item-type", "[env]\npass = [\"A\", 2026-01-01, [\"B\"]]\n"},
		{"scalar-for-table", "agent = \"claude\"\n"},
		{"table-for-scalar", "[agent.name]\nx = 1\n"},
		{"empty-table-for-scalar", "[agent.name]\n"},
		{"array-of-tables", "[[agent]]\nname = \"claude\"\n"},
		{"values", "[agent]\nname = \"Claude\"\nmodel = \"-x\"\npermissions = \"bypas\"\n[sandbox]\ndriver = \"podman\"\nimage = \"A B\"\n[sandbox.resources]\nmemory = \"8x\"\ncpus = -1\npids = 1\ntimeout_minutes = 0\n[image]\nbase = \"x@y\"\n"},
		{"env-names", "[env]\npass = [\n  \"A B\",\n  \"LD_PRELOAD\",\n  \"X=secret\", # a value\n  \"git_dir\", \"https_proxy\", \"\",\n  \"RALPH_CONFIG\",\n]\n"},
		{"disabled", "[sandbox]\nenabled = false # please\n"},
		{"syntax", "[agent]\nname = claude\n"},
		{"syntax-at-end", "[agent]\nname = \"claude"},
		{"unclosed-list", "[env]\npass = [\"A\",\n"},
		{"twice", "[agent]\nname = \"claude\"\nname = \"codex\"\n"},
		{"table-twice", "[agent]\n[sandbox]\n[agent]\n"},
		{"crlf", "[agent]\r\nname = 1\r\n"},
		{"wide-characters", "image = { base = \"日本語\", \"größe\" = 1 }\n"},
		{"terminal-escapes", "[agent]\nname = \"\u202e\u200bx\"\n"},
		{"raw-escape", "[agent]\nname = \"\x1b[31mred\"\n"},
		{"invalid-utf8", "[agent]\nname = \"\xff\"\n"},
		{"long-line", "[env]\npass = [" + strings.Repeat(`"AAAA", `, 40) + `"B-C", ` + strings.Repeat(`"AAAA", `, 40) + "]\n"},
		{"utf16", "\xff\xfe[\x00a\x00]\x00"},
		{"tabs", "[agent]\n\tname\t=\t1\n"},
		{"multi-line-value", "[agent]\nname = \"\"\"\nx\n\"\"\"\n"},
		{"lone-cr", "[agent]\rname = 1\n"},
		{"loop", "[loop]\nmax_duration = \"4 hours\"\nmax_cost_usd = -1\nstall = -1\nidel = 3\nidle = \"30m\"\ngrace = \"0\"\nmax_wait = 3\n"},
		{"loop-values", "[loop]\nmax_duration = \"4 hours\"\nmax_cost_usd = \"-1\"\nstall = -1\ngrace = \"0\"\nmax_tokens = 99999999999999\n"},
		{"checks", "[checks]\ncommands = \"make test\"\n"},
		{"check-item", "[checks]\ncommands = [\"make test\", 3]\n"},
		{"check-empty", "[checks]\ncommands = [\"make test\",\n  \" \"]\n"},
		{"agents", "[agents.mine]\ncomand = [\"x\"]\n[agents.mine.stream]\nx = 1\n[agents]\nother = 1\n"},
		{"agents-values", "[agents.claude]\ncommand = [\"x\"]\n[agents.Mine]\ncommand = [\"x\"]\n[agents.a]\ncommand = []\n[agents.b]\ncommand = [\"b\"]\nstream = \"codec\"\nkeys = \"antropic\"\n"},
		{"removed", "[sandbox]\ngit = \"direct\"\nshadow_node_modules = \"on\"\n"},
		{"notify", "[notify]\nwebhook = \"https://evil.example/\"\ncommand = [\"sh\"]\n"},
		{"big-number", "[sandbox.resources]\npids = 99999999999999999999\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := write(t, "ralph.toml", tc.content)
			_, err := Load(Sources{Root: root, Images: imageref.Checker{}})
			assert.Assert(t, err != nil)
			var mistake *FileError
			assert.Assert(t, errors.As(err, &mistake), "%v", err)
			shown := strings.ReplaceAll(err.Error(), root+string(filepath.Separator), "")
			assert.Assert(t, !strings.ContainsAny(shown, "\x1b\r\t\u202e"), "%q", shown)
			golden.Assert(t, shown+"\n", tc.name+".golden")
		})
	}
}

func TestEmptyFiles(t *testing.T) {
	for _, content := range []string{"", "\n\n", "# nothing\n", "\ufeff", "[agent]\n[sandbox]\n[sandbox.resources]\n", "agent = {}\n"} {
		e, err := Load(Sources{Root: write(t, "ralph.toml", content)})
		assert.NilError(t, err)
		assert.DeepEqual(t, e.Config, defaults())
	}
}

// TestHostileFiles is about files that are legal, or nearly, and made to cost
// time or memory.
func TestHostileFiles(t *testing.T) {
	fill := func(start, item, end string) string {
		return start + strings.Repeat(item, (maxFile-len(start)-len(end))/len(item)) + end
	}
	for _, tc := range []struct{ name, content, message string }{
		{"list of names", fill("env.pass = [", `"A",`, "]"), "more than 256 items"},
		{"wrong names", "env.pass = [" + strings.Repeat(`"A B",`, 200) + "]", "too many errors"},
		{"unknown keys", func() string {
			var b strings.Builder
			for i := range 60000 {
				b.WriteString("k" + strconv.Itoa(i) + "=1\n")
			}
			return b.String()
		}(), `not a configuration of docker-ralph: line 1 has the unknown key "k0"`},
		{"nested lists", "x = " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), `unknown key "x"`},
		{"nested tables", "x = " + strings.Repeat("{x=", 9000) + "1" + strings.Repeat("}", 9000), `unknown table "x"`},
		{"long key", fill("a", ".a", " = 1"), `unknown key "a"`},
		{"values below a long key", "[" + fill("a", ".a", "")[:1<<18] + "1]\n" + strings.Repeat("b.c", 1<<10) + " = 1", `unknown table "a"`},
		{"one long line", fill("agent = { name = \"", "x", "\" }"), "use lower-case letters"},
		{"empty lines", fill("x", "\n", ""), "expected '=' after key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			_, err := Load(Sources{Root: write(t, "ralph.toml", tc.content)})
			assert.ErrorContains(t, err, tc.message)
			assert.Assert(t, len(err.Error()) < 16<<10, len(err.Error()))
			assert.Assert(t, time.Since(start) < 10*time.Second, "took %s", time.Since(start))
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		everything, "", "\ufeff[agent]", "[sandbox]\nenabled = false", "agent = {name = 'x', a.b = [{c = 1}]}",
		"env.pass = ['A', 'PATH', 'B C']", "[[agent]]", "[agent.name]", "a.b.c = 1\n\"a.b\" = 2", "x = [[[[]]]]",
		"sandbox.resources.cpus = 1_0.5e1", "\r\n", "image.base = \"\\u0000\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		values, err := newDocument("ralph.toml", FromRepository, content).interpret()
		var e Effective
		if err == nil {
			e, err = merge(Sources{Root: "/repo", Images: imageref.Checker{}}, values, nil)
		}
		if err != nil {
			assert.Assert(t, !strings.ContainsAny(err.Error(), "\x1b\x00\x7f\u202e"), "%q", err)
			return
		}
		assertValid(t, e)
	})
}

// assertValid checks what the rest of the program relies on.
func assertValid(t *testing.T, e Effective) {
	t.Helper()
	assert.NilError(t, checkAgent(e.Agent.Name))
	assert.NilError(t, checkModel(e.Agent.Model))
	assert.NilError(t, checkChoice(e.Agent.Permissions, "bypass", "ask"))
	assert.NilError(t, checkChoice(e.Sandbox.Driver, "auto", "sbx", "docker-sandbox", "container"))
	if e.Sandbox.Image != "" {
		assert.NilError(t, imageref.Checker{}.Image(e.Sandbox.Image))
	}
	if e.Image.Base != "" {
		assert.NilError(t, imageref.Checker{}.Base(e.Image.Base))
	}
	r := e.Sandbox.Resources
	assert.Assert(t, e.Sandbox.Enabled && r.Memory >= minMemory && r.NanoCPUs() > 0 && r.Pids >= minPids && r.Timeout > 0)
	assert.NilError(t, checkChoice(e.Sandbox.GitToken, GitTokenNone, GitTokenRead, GitTokenWrite))
	asked := 0
	if e.Sandbox.GitToken != GitTokenNone {
		asked++
	}
	for _, name := range e.Env.Pass {
		assert.NilError(t, checkEnvName(name, FromRepository))
		asked++
	}
	if e.Sandbox.Image != "" {
		asked++
	}
	if e.Image.Base != "" {
		asked++
	}
	if e.Sandbox.Driver == DriverContainer {
		asked++
	}
	for _, open := range []bool{privilegedAgent(e.Agent.Name), !e.Sandbox.ReadOnly, e.Sandbox.Workspace == WorkspaceLive, e.Sandbox.Runtime != "", e.Sandbox.Sign, e.Sandbox.Network.Policy == egress.AllowAll} {
		if open {
			asked++
		}
	}
	for _, allows := range limits() {
		if allows(e.Config) > allows(defaults()) {
			asked++
		}
	}
	_, err := e.Policy()
	assert.NilError(t, err)
	for _, rule := range e.Sandbox.Network.Allowed {
		if privilegedRule(rule, DefaultPresets()) {
			asked++
		}
	}
	assert.Equal(t, len(e.Privileged), asked, "every privileged setting is listed")
	assert.Equal(t, e.PrivilegedDigest() == "", asked == 0)
}
