//go:build unix

package microvm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	moby "github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli/sandboxclitest"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// newSbx returns a driver with a fake sbx.
func newSbx(t *testing.T, change func(*sandboxcli.Settings)) (*Driver, *sandboxclitest.Fake) {
	t.Helper()
	d := sandboxclitest.New(t, change)
	d.Setenv(t)
	return New(Sbx, Options{StateDir: filepath.Join(d.Shared, "ralph"), KVM: "/dev/null", Report: func(string) {}}), d
}

func TestSupportedVersions(t *testing.T) {
	for version, want := range map[string]string{
		"0.16.1": "sbx has version 0.16.1, but Docker's sbx 0.47.0 or newer is required",
		"0.46.9": "sbx has version 0.46.9, but Docker's sbx 0.47.0 or newer is required",
		"0.47.0": "",
		"0.50.1": "",
		"0.51.0": "--no-input",
		"0.53.0": "--no-input",
		"1.2.3":  "--no-input",
	} {
		t.Run(version, func(t *testing.T) {
			d, _ := newSbx(t, func(s *sandboxcli.Settings) { s.Version = version })
			for range 2 { // asked, and remembered
				c, err := d.client(t.Context())
				if strings.HasPrefix(want, "sbx") {
					assert.ErrorContains(t, err, "/"+want)
					continue
				}
				assert.NilError(t, err)
				assert.Equal(t, strings.Join(c.args, " "), want)
			}
		})
	}
}

// The version is cached for one program file.
func TestUpdateInvalidatesCachedVersion(t *testing.T) {
	d, programs := newSbx(t, func(s *sandboxcli.Settings) { s.Version = "0.47.1" })
	c, err := d.client(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(c.args), 0)
	programs.Set(t, func(s *sandboxcli.Settings) { s.Version = "0.53.0" })
	later := filepath.Join(programs.Bin, "sbx")
	info, err := os.Stat(later)
	assert.NilError(t, err)
	assert.NilError(t, os.Chtimes(later, info.ModTime(), info.ModTime().Add(1e9)))
	c, err = d.client(t.Context())
	assert.NilError(t, err)
	assert.DeepEqual(t, c.args, []string{"--no-input"})
}

func TestUsable(t *testing.T) {
	for _, tc := range []struct {
		name, err string
		change    func(*sandboxcli.Settings)
		kvm       string
		policy    string
		absent    bool
	}{
		{name: "good"},
		{name: "old and good", change: func(s *sandboxcli.Settings) { s.Version = "0.47.0" }},
		{name: "not there", absent: true, err: "not installed: sbx is not on PATH"},
		{name: "logged out", change: func(s *sandboxcli.Settings) { s.LoggedIn = false }, err: `log in with "sbx login"`},
		{name: "no policy", change: func(s *sandboxcli.Settings) { s.PolicyInitialised = false }, err: `"sbx policy init balanced"`},
		{name: "a policy that denies everything", change: func(s *sandboxcli.Settings) { s.PolicyInitialised = false }, policy: "deny-all"},
		{name: "no daemon", change: func(s *sandboxcli.Settings) { s.DaemonUp, s.Faults.NoDaemon = false, true }, err: "the daemon of sbx is not running"},
		{name: "no KVM", kvm: "/dev/no-such-device", err: "this machine has no KVM"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, programs := newSbx(t, tc.change)
			if tc.policy != "" {
				out, err := programs.Sbx(t.Context(), "policy", "init", tc.policy).CombinedOutput()
				assert.NilError(t, err, "%s", out)
			}
			if tc.kvm != "" {
				d.program.(*sbx).kvm = tc.kvm
			}
			if tc.absent {
				t.Setenv("PATH", t.TempDir())
			}
			err := d.Usable(t.Context())
			if tc.err == "" {
				assert.NilError(t, err)
				return
			}
			assert.Check(t, is.Contains(WithHints(err), tc.err))
			if tc.absent {
				assert.ErrorIs(t, err, lifecycle.ErrNotInstalled)
			}
		})
	}
}

// TestExplain has the errors of real versions.
func TestExplain(t *testing.T) {
	d := New(Sbx, Options{})
	for said, want := range map[string]string{
		"ERROR: You are not authenticated to Docker":                                                `log in with "sbx login"`,
		"ERROR: failed to refresh token: 400":                                                       `log in with "sbx login"`,
		"ERROR: your Docker session could not be refreshed due to a network issue":                  "check your network connection",
		"ERROR: no network policy: run 'sbx policy init balanced'":                                  `"sbx policy init balanced"`,
		"ERROR: 500 Internal Server Error: backend unavailable":                                     `"sbx daemon restart"`,
		"ERROR: ensure daemon: daemon failed to start properly after 10 retries, check logs at: /x": `"sbx daemon start --detach"`,
		"ERROR: cannot connect to the daemon: dial unix /x: no such file":                           `"sbx daemon start --detach"`,
		"ERROR: could not open /dev/kvm":                                                            "no KVM",
		"ERROR: request failed: 500 Internal Server Error: failed to run sandbox container":         `"sbx diagnose"`,
		"ERROR: something that nobody has ever seen":                                                "",
		"ERROR: no sandbox named 'ralph-x'\n\nTo create one:\n  sbx create AGENT WORKSPACE":         "",
	} {
		err := d.explain(&callError{command: "sbx x", code: 1, stderr: said})
		if want == "" {
			assert.NilError(t, err)
		} else {
			assert.Check(t, is.Contains(WithHints(err), want))
		}
	}
}

func TestMissingAndTaken(t *testing.T) {
	for said, want := range map[string][2]bool{
		"ERROR: no sandbox named 'x'":            {true, false},
		"Error: sandbox 'x' not found":           {true, false},
		"ERROR: 409 Conflict: x already exists":  {false, true},
		"ERROR: 500: backend unavailable":        {false, false},
		"ERROR: image not found":                 {false, false},
		"ERROR: workspace /x: file not found":    {false, false},
		"ERROR: You are not authenticated to it": {false, false},
		`Error: no sandbox named "x"`:            {true, false},

		"Error: docker sandbox: connect to daemon: socket not found":                   {false, false},
		`docker: exec: "docker-sandbox": executable file not found in $PATH`:           {false, false},
		`creating the sandbox: image "docker/sandbox-templates:x": manifest not found`: {false, false},
	} {
		c := &callError{code: 1, stderr: said}
		assert.Equal(t, [2]bool{c.missing(), c.taken()}, want, said)
	}
}

func TestLimits(t *testing.T) {
	assert.Equal(t, processors(1), 1)
	assert.Equal(t, processors(0), 1)
	assert.Equal(t, processors(1e9), 1)
	if many := processors(1e15); many < 1 || many > 4096 {
		t.Errorf("%d processors", many)
	}
	small, err := limitMemory(1)
	assert.NilError(t, err)
	assert.Equal(t, small, int64(512<<20))
	total, err := hostMemory()
	assert.NilError(t, err)
	most, err := limitMemory(1 << 60)
	assert.NilError(t, err)
	assert.Equal(t, most, total/4*3)
}

func TestParseKeys(t *testing.T) {
	const list = `{"secrets": [
    {"scope": "host-only", "type": "registry", "name": "ghcr.io", "secret": "**", "username": "u"},
    {"scope": "global", "type": "registry", "name": "openrouter", "secret": "**"},
    {"scope": "global", "type": "service", "name": "anthropic", "secret": "(stored)"},
    {"scope": "ralph-app", "type": "service", "name": "github", "secret": "(stored)"},
    {"scope": "global", "type": "service", "name": "openai", "secret": {"kind": "ref"}}
  ], "custom_secrets": [{"scope": "global", "targets": ["a.example"], "env": "groq"}]}`
	for _, output := range []string{list, starts + list + notice} {
		stored := map[string]bool{}
		assert.NilError(t, parseKeys([]byte(output), stored))
		assert.DeepEqual(t, stored, map[string]bool{"anthropic": true, "openai": true})
	}
	for _, output := range []string{"", "ERROR: not logged in\n", `{"error":"x"}`, `{"secrets":7}`, `{"secrets":[`} {
		assert.Assert(t, parseKeys([]byte(output), map[string]bool{}) != nil, output)
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"secrets":[{"scope":"global","type":"service","name":"anthropic"}]}`))
	f.Add([]byte("x\n{\"secrets\":null}\ny"))
	f.Fuzz(func(t *testing.T, output []byte) {
		stored := map[string]bool{}
		if parseKeys(output, stored) != nil {
			assert.Equal(t, len(stored), 0)
		}
	})
}

func FuzzHasImage(f *testing.F) {
	f.Add([]byte(`{"images":[{"id":"0123456789ab","repository":"docker.io/docker-ralph/sandbox","tag":"0123456789ab","size":1}]}`))
	f.Add([]byte("Starting sandboxd daemon...\n{\"images\":null}"))
	f.Add([]byte("[]"))
	f.Fuzz(func(t *testing.T, output []byte) {
		has, err := hasImage(output, "0123456789ab")
		assert.Assert(t, !has || err == nil)
		assert.Assert(t, !has || strings.Contains(string(output), "0123456789ab") || strings.Contains(string(output), `\u`))
	})
}

// counting counts the images that are saved.
type counting struct {
	Engine
	saved int
}

func (c *counting) ImageSave(ctx context.Context, images []string, options ...moby.ImageSaveOption) (moby.ImageSaveResult, error) {
	c.saved++
	return c.Engine.ImageSave(ctx, images, options...)
}

func TestImageIsLoadedOnce(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		d, _ := newSbx(t, func(s *sandboxcli.Settings) { s.Mode, s.Engine = sandboxcli.ModeContainer, e.Host })
		api := e.Client(t)
		engine := &counting{Engine: api}
		var said []string
		d.Report = func(m string) { said = append(said, m) }
		s := d.program.(*sbx)
		s.engine = engine
		temp := t.TempDir()
		t.Setenv("TMPDIR", temp)
		var first []string
		for range 3 {
			args, err := s.template(t.Context(), d, engines.BaseImage())
			assert.NilError(t, err)
			assert.Equal(t, strings.Join(args[:3], " "), "--pull never --template")
			if first == nil {
				first = args
			}
			assert.DeepEqual(t, args, first)
		}
		assert.Equal(t, engine.saved, 1)
		assert.DeepEqual(t, said, []string{"Copying image " + engines.BaseImage() + " to sbx (once)"})
		t.Cleanup(func() {
			_, err := api.ImageRemove(context.WithoutCancel(t.Context()), first[3], moby.ImageRemoveOptions{})
			assert.Check(t, err)
		})
		left, err := os.ReadDir(temp)
		assert.NilError(t, err)
		assert.Equal(t, len(left), 0)

		// sbx pulls images that the engine does not have.
		args, err := s.template(t.Context(), d, "example.com/not/there:1")
		assert.NilError(t, err)
		assert.DeepEqual(t, args, []string{"--pull", "missing", "--template", "example.com/not/there:1"})
	})
}

// sbx adds neither docker.io/ nor a tag to what it pulls.
func TestPulledImagesHaveFullNames(t *testing.T) {
	for image, full := range map[string]string{
		"docker/sandbox-templates:claude-code": "docker.io/docker/sandbox-templates:claude-code",
		"mine":                                 "docker.io/library/mine:latest",
		"localhost:5000/mine:1":                "localhost:5000/mine:1",
	} {
		args, err := (&sbx{}).template(t.Context(), nil, image)
		assert.NilError(t, err)
		assert.DeepEqual(t, args, []string{"--pull", "missing", "--template", full})
	}
	_, err := (&sbx{}).template(t.Context(), nil, "No Image")
	assert.ErrorContains(t, err, `image "No Image": invalid reference format`)
}

func TestKeys(t *testing.T) {
	for _, version := range []string{"0.47.0", "0.53.0"} {
		t.Run(version, func(t *testing.T) {
			d, programs := newSbx(t, func(s *sandboxcli.Settings) { s.Version = version })
			ask := func() map[string]bool {
				has, err := d.Keys(t.Context(), nil, nil)
				assert.NilError(t, err)
				return has
			}
			assert.Equal(t, len(ask()), 0)
			set := programs.Sbx(t.Context(), "secret", "set", "anthropic")
			set.Stdin = strings.NewReader("sk-test\n")
			out, err := set.CombinedOutput()
			assert.NilError(t, err, string(out))
			assert.Assert(t, ask()["anthropic"])
			assert.NilError(t, filepath.WalkDir(d.StateDir, func(path string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				content, err := os.ReadFile(path)
				assert.Check(t, !is.Contains(string(content), "sk-test")().Success(), path)
				return err
			}))

			out, err = programs.Sbx(t.Context(), "secret", "rm", "anthropic", "--force").CombinedOutput()
			assert.NilError(t, err, string(out))
			assert.Assert(t, !ask()["anthropic"], "it is believed in after it was removed")

			programs.Set(t, func(s *sandboxcli.Settings) { s.LoggedIn = false })
			_, err = d.Keys(t.Context(), nil, nil)
			assert.ErrorContains(t, err, "listing the keys of sbx: sbx is not logged in")
		})
	}
}
