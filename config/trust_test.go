package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"

	"github.com/docker-ralph/docker-ralph/egress"
)

func digest(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func TestPrivileged(t *testing.T) {
	const repository = "[sandbox]\nimage = \"i\"\n[env]\npass = [\"B\", \"A\", \"B\"]\n[image]\nbase = \"b\"\n"
	for _, tc := range []struct {
		name, repository, user string
		env                    map[string]string
		flags                  Overrides
		want                   string
	}{
		{"nothing", "[sandbox]\ndriver = \"sbx\"\nresources.memory = \"1g\"\nimage = \"\"\n", "", nil, Overrides{}, ""},
		{"everything, sorted, each once", repository, "", nil, Overrides{}, "env.pass=A env.pass=B image.base=b sandbox.image=i"},
		{"ignored files", "workspace.include = [\".env.test\", \"x\"]", "workspace.include = [\"x\"]", nil, Overrides{}, "workspace.include=.env.test"},
		{"the user says the same", repository, "sandbox.image = \"i\"\nimage.base = \"b\"\nenv.pass = [\"A\", \"B\"]", nil, Overrides{}, ""},
		{"the user says some", repository, "env.pass = [\"A\"]", nil, Overrides{}, "env.pass=B image.base=b sandbox.image=i"},
		{"the user says otherwise", repository, "sandbox.image = \"\"\nimage.base = \"other\"", nil, Overrides{}, "env.pass=A env.pass=B"},
		{"a flag does not shorten the list", repository, "", nil, Overrides{Image: ptr("f")}, "env.pass=A env.pass=B image.base=b sandbox.image=i"},
		{
			"flags leave nothing in effect", repository, "",
			map[string]string{"RALPH_DOCKER_ENV": "A,B"},
			Overrides{Image: ptr("f"), Base: ptr("b")},
			"",
		},
		{"weaker isolation", "[sandbox]\ndriver = \"container\"\n", "", nil, Overrides{}, "sandbox.driver=container"},
		{"which the user wants too", "[sandbox]\ndriver = \"container\"\n", "[sandbox]\ndriver = \"container\"\n", nil, Overrides{}, ""},
		{"an agent whose keys go in", "[agent]\nname = \"gemini\"\n", "", nil, Overrides{}, "agent.name=gemini"},
		{"which the user has chosen", "[agent]\nname = \"gemini\"\n", "", nil, Overrides{Agent: ptr("gemini")}, ""},
		{"an agent whose keys stay out", "[agent]\nname = \"codex\"\n", "", nil, Overrides{}, ""},
		{
			"paths that get the key", "[agent]\nendpoint_paths = [\"/v1/embeddings\", \"/key\"]\n", "[agent]\nendpoint_paths = [\"/v1/embeddings\"]\n", nil,
			Overrides{},
			"agent.endpoint_paths=/key",
		},
		{
			"limits that it raises", `
				[sandbox.resources]
				memory = "9g"
				cpus = 4.5
				pids = 4000000
				tmp = "2g"
				shm = "65m"
				timeout_minutes = 61
				[loop]
				max_failures = 0
				stall = 0
				idle = 31
				max_wait = "7h"
				grace = "2m"
				[checks]
				timeout = "0"`,
			"", nil,
			Overrides{},
			"checks.timeout=0 loop.grace=2m loop.idle=31 loop.max_failures=0 loop.max_wait=7h loop.stall=0 " +
				"sandbox.resources.cpus=4.5 sandbox.resources.memory=9g sandbox.resources.pids=4000000 sandbox.resources.shm=65m " +
				"sandbox.resources.timeout_minutes=61 sandbox.resources.tmp=2g",
		},
		{"limits that it lowers, keeps or adds", `
				[sandbox.resources]
				memory = "8192m"
				cpus = 1
				pids = 64
				tmp = "1024m"
				shm = "6m"
				timeout_minutes = 60
				[loop]
				max_duration = "8h"
				max_cost_usd = 1000
				max_tokens = 1
				max_failures = 1
				stall = 3
				idle = 0.5
				max_wait = "1s"
				grace = "1s"
				[checks]
				timeout = "9m"`, "", nil, Overrides{}, ""},
		{"a limit that the user sets", "[sandbox.resources]\npids = 4000\n[loop]\nidle = 0\n", "[sandbox.resources]\npids = 300\n", nil, Overrides{}, "loop.idle=0"},
		{"a host that the user has taken out", "[sandbox.network]\nallowed = [\"github.com\"]\n", "[sandbox.network]\npresets = [\"agent\"]\n", nil, Overrides{}, "sandbox.network.allowed=github.com"},
		{"walls that the repository tightens", "[sandbox]\nread_only = true\nworkspace = \"clone\"\ngit_token = \"none\"\nsign = false\nnetwork.policy = \"deny\"\n", "", nil, Overrides{}, ""},
		{"fewer presets", "[sandbox.network]\npresets = [\"agent\"]\n", "", nil, Overrides{}, ""},
		{"hosts that are allowed anyway", "[sandbox.network]\nallowed = [\"github.com\", \"crates.io\"]\n", "", nil, Overrides{}, ""},
		{
			"walls that it takes down", `
				[sandbox]
				workspace = "live"
				git_token = "read"
				sign = true
				read_only = false
				runtime = "mine"
				[sandbox.network]
				policy = "allow-all"
				allowed = ["evil.example", "github.com:22", "*.crates.io", "github.com=10.0.0.0/8"]`,
			"", nil,
			Overrides{},
			"sandbox.git_token=read sandbox.network.allowed=*.crates.io sandbox.network.allowed=evil.example sandbox.network.allowed=github.com:22 " +
				"sandbox.network.allowed=github.com=10.0.0.0/8 sandbox.network.policy=allow-all sandbox.read_only=false sandbox.runtime=mine sandbox.sign=true sandbox.workspace=live",
		},
		{"the user's own wishes", "", "sandbox.image = \"i\"\nenv.pass = [\"PATH\"]", nil, Overrides{Base: ptr("b")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := Load(Sources{
				Root: write(t, "ralph.toml", tc.repository), UserDir: write(t, "config.toml", tc.user),
				Getenv: env(tc.env), Overrides: tc.flags,
			})
			assert.NilError(t, err)
			var got []string
			for _, s := range e.Privileged {
				got = append(got, s.Key+"="+s.Value)
				assert.Assert(t, s.Why != "" && s.Origin.Kind == FromRepository && s.Origin.Line > 0)
			}
			assert.Equal(t, strings.Join(got, " "), tc.want)
		})
	}
}

// Every limit is compared.
func TestLimitsAreKnown(t *testing.T) {
	known := limits()
	for _, s := range settings() {
		if strings.HasPrefix(s.key, "loop.") || strings.HasPrefix(s.key, "sandbox.resources.") || strings.HasSuffix(s.key, "timeout") {
			assert.Check(t, known[s.key] != nil, s.key)
		}
	}
}

// Presets are parts of what is there by default, so far.
func TestUnprivilegedPresets(t *testing.T) {
	all, err := egress.Presets()
	assert.NilError(t, err)
	for _, name := range all {
		assert.Check(t, !privilegedPresets(`["`+name+`"]`), name)
	}
	assert.Check(t, privilegedPresets(`["nobody knows"]`))
}

func TestPrivilegedDigest(t *testing.T) {
	root := t.TempDir()
	digestOf := func(content string) string {
		assert.NilError(t, os.WriteFile(filepath.Join(root, "ralph.toml"), []byte(content), 0o644))
		e, err := Load(Sources{Root: root})
		assert.NilError(t, err)
		return e.PrivilegedDigest()
	}
	first := digestOf("env.pass = [\"A\", \"B\"]\n")
	assert.Assert(t, digestForm().MatchString(first), first)
	assert.Equal(t, digestOf("# moved\n[env]\npass = [\n\"B\", \"A\"]\n[agent]\nmodel = \"m\"\n"), first)
	assert.Assert(t, digestOf("env.pass = [\"A\"]\n") != first)
	assert.Assert(t, digestOf("env.pass = [\"A\", \"B\"]\nsandbox.image = \"i\"\n") != first)
	assert.Assert(t, digestOf("sandbox.image = \"i\"\n") != digestOf("image.base = \"i\"\n"))

	before := digestOf("env.pass = [\"A\", \"B\"]\n")
	elsewhere, err := Load(Sources{Root: write(t, "ralph.toml", "env.pass = [\"A\", \"B\"]\n")})
	assert.NilError(t, err)
	assert.Assert(t, elsewhere.PrivilegedDigest() != before)
}

func TestRequire(t *testing.T) {
	root, store := write(t, "ralph.toml", "[env]\npass = [\"A\"]\n"), NewTrustStore(filepath.Join(t.TempDir(), "ralph"))
	load := func() Effective {
		e, err := Load(Sources{Root: root})
		assert.NilError(t, err)
		return e
	}
	err := store.Require(load())
	var untrusted *UntrustedError
	assert.Assert(t, errors.As(err, &untrusted))
	assert.Equal(t, untrusted.Root, root)
	assert.Error(t, err, "privileged settings are not approved: env.pass = \"A\" ("+root+"/ralph.toml:2)")
	assert.DeepEqual(t, hint.Of(err), []string{`review them, then run "docker ralph trust"`})

	assert.NilError(t, store.Approve(root, load().PrivilegedDigest()))
	assert.NilError(t, store.Require(load()))

	assert.NilError(t, os.WriteFile(filepath.Join(root, "ralph.toml"), []byte("env.pass = [\"A\", \"B\"]"), 0o644))
	assert.ErrorContains(t, store.Require(load()), `"B"`)

	assert.NilError(t, os.WriteFile(filepath.Join(root, "ralph.toml"), nil, 0o644))
	assert.NilError(t, store.Require(load()))
}

func TestTrustStore(t *testing.T) {
	store := NewTrustStore(filepath.Join(t.TempDir(), "not", "yet"))
	approved := func(root string, n int) bool {
		ok, err := store.Approved(root, digest(n))
		assert.NilError(t, err)
		return ok
	}
	assert.Assert(t, !approved("/a", 1))
	assert.NilError(t, store.Revoke("/a"))
	_, err := os.Stat(store.Path)
	assert.ErrorIs(t, err, os.ErrNotExist)

	assert.NilError(t, store.Approve("/a", digest(1)))
	assert.NilError(t, store.Approve("/a", digest(2)))
	assert.NilError(t, store.Approve("/b/../b/", digest(3)))
	assert.Assert(t, approved("/a", 1) && approved("/a/", 2) && approved("/b", 3))
	assert.Assert(t, !approved("/a", 3) && !approved("/b", 1))
	info, err := os.Stat(store.Path)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))

	assert.NilError(t, store.Revoke("/a"))
	assert.Assert(t, !approved("/a", 1) && !approved("/a", 2) && approved("/b", 3))

	for n := range maxApprovals + 2 {
		assert.NilError(t, store.Approve("/c", digest(n)))
	}
	assert.Assert(t, !approved("/c", 1) && approved("/c", 2) && approved("/c", maxApprovals+1))

	assert.ErrorContains(t, store.Approve("relative", digest(1)), "absolute path")
	assert.ErrorContains(t, store.Approve("/a", ""), "not a digest")
}

func TestTrustStoreConcurrency(t *testing.T) {
	path := NewTrustStore(t.TempDir()).Path
	var group sync.WaitGroup
	for n := range 20 {
		group.Go(func() { assert.Check(t, TrustStore{path}.Approve("/a", digest(n))) })
	}
	group.Wait()
	for n := range 20 {
		ok, err := TrustStore{path}.Approved("/a", digest(n))
		assert.NilError(t, err)
		assert.Assert(t, ok, "approval %d was lost", n)
	}
}

func TestBrokenTrustStore(t *testing.T) {
	good := fmt.Sprintf(`{"version":1,"roots":{"/a":[{"digest":%q,"approved":"2026-01-01T00:00:00Z"}]}}`, digest(1))
	for _, tc := range []struct {
		name, content, message string
		mode                   os.FileMode
	}{
		{"empty", "", "EOF", 0o600},
		{"half", good[:60], "EOF", 0o600},
		{"not JSON", "hello", "invalid character", 0o600},
		{"null", "null", "version 0", 0o600},
		{"newer", `{"version":2,"roots":{}}`, "unsupported version 2, expected 1", 0o600},
		{"unknown field", `{"version":1,"rots":{}}`, "unknown field", 0o600},
		{"more", good + "{}", "unexpected data after", 0o600},
		{"no digest", `{"version":1,"roots":{"/a":[{"digest":""}]}}`, "invalid entry", 0o600},
		{"relative", strings.Replace(good, `"/a"`, `"a"`, 1), "invalid entry", 0o600},
		{"writable by others", good, "writable by other users (mode 0666)", 0o666},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := NewTrustStore(t.TempDir())
			assert.NilError(t, os.WriteFile(store.Path, []byte(tc.content), 0o600))
			assert.NilError(t, os.Chmod(store.Path, tc.mode))
			ok, err := store.Approved("/a", digest(1))
			assert.Assert(t, !ok)
			assert.ErrorContains(t, err, tc.message)
			assert.DeepEqual(t, hint.Of(err), []string{"restore the file, or remove it and approve again"})
			assert.ErrorContains(t, store.Approve("/a", digest(2)), tc.message)
			assert.ErrorContains(t, store.Revoke("/a"), tc.message)
			after, err := os.ReadFile(store.Path)
			assert.NilError(t, err)
			assert.Equal(t, string(after), tc.content)
		})
	}
}

func TestTrustStoreIsDirectory(t *testing.T) {
	store := NewTrustStore(t.TempDir())
	assert.NilError(t, os.Mkdir(store.Path, 0o700))
	_, err := store.Approved("/a", digest(1))
	assert.ErrorContains(t, err, "not a regular file")
	assert.ErrorContains(t, store.Approve("/a", digest(1)), "not a regular file")
}

func FuzzTrustStore(f *testing.F) {
	f.Add([]byte(`{"version":1,"roots":{"/a":[{"digest":"` + digest(1) + `","approved":"2026-01-01T00:00:00Z"}]}}`))
	f.Add([]byte(`{"version":1,"roots":null}`))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		content, err := decodeTrust(encoded)
		if err != nil {
			return
		}
		assert.Assert(t, content.Roots != nil && content.Version == trustVersion)
		for root, list := range content.Roots {
			for _, a := range list {
				assert.Assert(t, filepath.IsAbs(root) && digestForm().MatchString(a.Digest))
			}
		}
	})
}
