package projectimage

import (
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/moby/buildkit/util/staticfs"
	"github.com/moby/moby/client"
	fstypes "github.com/tonistiigi/fsutil/types"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/icmd"
)

func TestEngineShellImage(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		req := Request{Agent: "shell", Base: e.base}
		first, err := e.ensure(t, req)
		assert.NilError(t, err)
		assert.Assert(t, first.Built)
		assert.Equal(t, first.Ref, refOf(t, req))

		inspect, err := e.Client.ImageInspect(t.Context(), first.Ref)
		assert.NilError(t, err)
		assert.Equal(t, first.ID, inspect.ID)
		assert.Equal(t, inspect.Config.User, "agent")
		assert.Equal(t, inspect.Config.WorkingDir, "/home/agent")
		upstream, err := e.Client.ImageInspect(t.Context(), e.base)
		assert.NilError(t, err)
		assert.DeepEqual(t, inspect.Config.Labels, map[string]string{
			"io.github.docker-ralph.agent":      "shell",
			"io.github.docker-ralph.base":       e.base,
			"io.github.docker-ralph.base-id":    upstream.ID,
			"io.github.docker-ralph.created-by": "docker-ralph",
			"io.github.docker-ralph.digest":     specOfTest(t, req).labels[labelDigest],
			"io.github.docker-ralph.kind":       "agent",
		})
		assert.Equal(t, e.run(t, first.Ref, `
			id -un; id -u; pwd; echo $HOME; stat -c %U:%a /home/agent; touch ~/mine; git --version >&2
			readlink /usr/local/bin/ralph; test ! -e /opt/ralph; test -s /etc/ssl/certs/ca-certificates.crt`),
			"agent\n1000\n/home/agent\n/home/agent\nagent:755\n/opt/ralph/bin/ralph")

		e.inspects.Store(0)
		e.others.Store(0)
		second, err := e.ensure(t, req)
		assert.NilError(t, err)
		assert.Equal(t, second, Image{Ref: first.Ref, ID: first.ID})
		assert.Equal(t, e.inspects.Load(), int64(1))
		assert.Equal(t, e.others.Load(), int64(0))
	})
}

// Build steps, those of the project's layer included, and agents trust a company's
// certificates, on bases with and without tools for that.
func TestEngineCertificates(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	save := "cat >/tmp/server.pem <<'END'\n" + string(certificate) + "END\n"
	verify := "openssl verify -CAfile /etc/ssl/certs/ca-certificates.crt /tmp/server.pem"
	for _, tc := range []struct{ name, base string }{
		{"with update-ca-certificates", ""},
		{"with a bundle only", "RUN rm /usr/sbin/update-ca-certificates"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, e *testEngine) {
				base := e.derive(t, tc.base)
				without, err := e.ensure(t, Request{Agent: "shell", Base: base})
				assert.NilError(t, err)
				assert.Equal(t, e.run(t, without.Ref, save+"! "+verify+" >&2 && echo rejected"), "rejected")

				with, err := e.ensure(t, Request{Agent: "shell", Base: base, CA: string(certificate)})
				assert.NilError(t, err)
				assert.Equal(t, e.run(t, with.Ref, save+verify+"; env | grep -c =/etc/ssl/certs/ca-certificates.crt"), "/tmp/server.pem: OK\n9")
			})
		})
	}
}

func TestEngineUserOnAnyBase(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, base, script, want string
	}{
		{
			"another user has the UID", `RUN useradd -m -u 1000 node && echo hello >/home/node/file && chown node /home/node/file`,
			`id -un; id -u; id -un node; ls -ld /home/agent | cut -d' ' -f3; echo new >>/home/node/file; cat /home/node/file`,
			"agent\n1000\nagent\nagent\nhello\nnew",
		},
		{
			"agent has another UID", `RUN useradd -m -u 4242 agent && echo hello >/home/agent/file && chown agent /home/agent/file`,
			`id -un; id -u; grep -c ^agent: /etc/passwd; stat -c %u /home/agent /home/agent/file`,
			"agent\n1000\n1\n1000\n1000",
		},
		{
			"agent has another UID, another user has the UID", `RUN useradd -u 4242 agent && useradd -u 1000 node`,
			`id -un; id -u; id -un 1000; id -gn`,
			"agent\n1000\nagent\nagent",
		},
		{
			"agent has another home", `RUN useradd -m -u 1000 -d /srv/agent agent`,
			`echo $HOME; stat -c %U $HOME`,
			"/home/agent\nagent",
		},
		{
			"agent as it should be", `RUN useradd -m -u 1000 -s /bin/bash -G video agent`,
			`id -u; id -Gn; grep ^agent: /etc/passwd | cut -d: -f7`,
			"1000\nagent video\n/bin/bash",
		},
		{
			"a group called agent", `RUN groupadd -g 5000 agent`,
			`id -u; id -g; id -gn`,
			"1000\n5000\nagent",
		},
		{
			"the group ID is taken", `RUN groupadd -g 1000 staffers`,
			`id -u; id -gn`,
			"1000\nstaffers",
		},
		{
			"files without a last newline", `RUN printf %s "$(cat /etc/passwd)" >/etc/p && cat /etc/p >/etc/passwd && printf %s "$(cat /etc/group)" >/etc/g && cat /etc/g >/etc/group`,
			`id -un; id -gn; tail -n 1 /etc/passwd | cut -d: -f1`,
			"agent\nagent\nnobody",
		},
		{
			"another user, shell and folder", "RUN useradd -m somebody\nSHELL [\"/bin/bash\", \"-eo\", \"pipefail\", \"-c\"]\nUSER somebody\nWORKDIR /srv",
			`id -un; pwd`,
			"agent\n/home/agent",
		},
		{
			"user directories elsewhere", "ENV XDG_CACHE_HOME=/srv/cache XDG_CONFIG_HOME= XDG_STATE_HOME=state",
			`for dir in "$XDG_CACHE_HOME" "$XDG_CONFIG_HOME" "$XDG_DATA_HOME" "$XDG_STATE_HOME"; do mkdir "$dir/mine"; stat -c '%U %n' "$dir"; done`,
			"agent /home/agent/.cache\nagent /home/agent/.config\nagent /home/agent/.local/share\nagent /home/agent/.local/state",
		},
		{
			"something is called ralph", `RUN mkdir /usr/local/bin/ralph`,
			`readlink /usr/local/bin/ralph`,
			"/opt/ralph/bin/ralph",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, e *testEngine) {
				image, err := e.ensure(t, Request{Agent: "shell", Base: e.derive(t, tc.base)})
				assert.NilError(t, err)
				assert.Equal(t, e.run(t, image.Ref, tc.script), tc.want)
			})
		})
	}
}

// stubTools stand for what an agent's image has: a base with them builds without
// a network.
const stubTools = `RUN for tool in ` + agentTools + `; do command -v $tool >/dev/null || ln -s /bin/true /usr/local/bin/$tool; done`

// stubNpm is an npm that installs a program which tells what npm was asked for.
// %s are the program and where npm puts it, below its prefix.
func stubNpm(program, file string) string {
	return stubTools + `
RUN printf '#!/bin/sh\necho v22.0.0\n' >/usr/bin/node && printf '%s\n' '#!/bin/sh' 'f="$4/` + file + `"' 'mkdir -p "$4/bin" "${f%/*}"' \
    'printf "#!/bin/sh\necho $*\n" >"$f"; chmod 755 "$f"; ln -sfn "$f" "$4/bin/` + program + `"' >/usr/bin/npm && chmod 755 /usr/bin/node /usr/bin/npm`
}

func TestEngineAgentOfTheBase(t *testing.T) {
	t.Parallel()
	const stub = `printf '#!/bin/sh\necho the agent of the base\n' >$f && chmod 755 $f`
	for _, tc := range []struct {
		name, agent, base, want string
	}{
		{"on the PATH", "claude", `RUN f=/usr/bin/claude; ` + stub, "/usr/bin/claude\nthe agent of the base"},
		{
			"in the home of agent", "claude",
			`RUN useradd -m -u 1000 agent; mkdir -p /home/agent/.local/bin; f=/home/agent/.local/bin/claude; ` + stub,
			"/home/agent/.local/bin/claude\nthe agent of the base",
		},
		{"crush", "crush", `RUN f=/usr/bin/crush; ` + stub, "/usr/bin/crush\nthe agent of the base"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, e *testEngine) {
				image, err := e.ensure(t, Request{Agent: tc.agent, Base: e.derive(t, stubTools+"\n"+tc.base)})
				assert.NilError(t, err)
				assert.Equal(t, e.run(t, image.Ref, `command -v `+tc.agent+`; `+tc.agent), tc.want)
			})
		})
	}
}

// TestEngineAgentFromNpm is about crush, whose package cannot be had without
// its maker's site: npm is a fake that records its arguments.
func TestEngineAgentFromNpm(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		base := e.derive(t, stubNpm("crush", "lib/node_modules/@charmland/crush/bin/crush"))
		image, err := e.ensure(t, Request{Agent: "crush", Base: base})
		assert.NilError(t, err)
		assert.Equal(t, e.run(t, image.Ref, `readlink $(command -v crush); crush; echo $CRUSH_DISABLE_PROVIDER_AUTO_UPDATE`),
			"/usr/local/lib/agent/lib/node_modules/@charmland/crush/bin/crush\n"+
				"install --global --prefix /usr/local/lib/agent --cache /tmp/npm --no-audit --no-fund --no-update-notifier "+
				"@charmland/crush@"+pinned(t, "CRUSH_VERSION")+"\n1")
	})
}

func TestEngineAgentCannotBe(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, base, want string
	}{
		{
			"another agent without npm", "RUN cp /bin/true /usr/bin/codex",
			"the base image has neither claude nor npm to install it with: take a base that has one of them",
		},
		{
			"only for root", "RUN mkdir -m 700 /root/bin; cp /bin/true /root/bin/claude\nENV PATH=/root/bin:$PATH",
			"the claude of the base image cannot be run by user agent: take a base in which it is readable for everybody",
		},
		{
			"does not start", "RUN cp /bin/false /usr/bin/claude",
			"the claude of this image does not start: its own words are above",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, e *testEngine) {
				_, err := e.ensure(t, Request{Agent: "claude", Base: e.derive(t, stubTools+"\n"+tc.base)})
				var buildErr *BuildError
				assert.Assert(t, errors.As(err, &buildErr), "%v", err)
				assert.Assert(t, len(buildErr.Log) > 0)
				assert.Equal(t, buildErr.Log[len(buildErr.Log)-1], tc.want)
				assert.ErrorContains(t, err, tc.want)
			})
		})
	}
}

// TestEngineRealAgents builds the images with the agents from npm on a base that
// has neither agents nor Node.js, and starts each. It needs npm's registry and a
// Debian mirror that containers can reach. The images stay: they are large, and
// built again when anything in them changes.
func TestEngineRealAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("installs packages")
	}
	onEngines(t, func(t *testing.T, e *testEngine) {
		base := e.deriveTrusting(t)
		agents := []struct{ agent, version string }{
			{"codex", "CODEX_VERSION"},
			{"gemini", "GEMINI_CLI_VERSION"},
			{"claude", "CLAUDE_CODE_VERSION"},
			{"opencode", "OPENCODE_VERSION"},
			{"copilot", "COPILOT_VERSION"},
		}
		if e.name == "debian" {
			agents = agents[:2] // one program and one script are enough on the old engine
		}
		for _, tc := range agents {
			t.Run(tc.agent, func(t *testing.T) {
				t.Parallel()
				b, progress := e.builder(t)
				image, err := b.Ensure(t.Context(), Request{Agent: tc.agent, Base: base})
				assert.NilError(t, err, "%s", progress)
				e.removeOutdated(t, base, tc.agent, image.Ref)
				out := e.runReadOnly(t, image.Ref, `for tool in `+agentTools+`; do command -v $tool >/dev/null; done
					! touch /usr/local/bin/mine 2>/dev/null
					id -un; npm config get cache; npm config get prefix; echo "$GOPATH$CARGO_HOME$PIP_CACHE_DIR"; `+tc.agent+` --version`)
				assert.Assert(t, strings.HasPrefix(out, "agent\n/home/agent/.npm\n/home/agent/.local\n\n"), out)
				assert.Assert(t, cmp.Contains(out, pinned(t, tc.version)))
				assert.Equal(t, e.run(t, image.Ref, `find /usr/local \( -user agent -o -perm -o=w ! -type l \) -print -quit`), "",
					"the agent can change itself")
			})
		}
	})
}

// deriveTrusting derives a base that trusts whom this machine trusts, and whose
// caches are in places that only root may write to. Its tag tells what is in it.
func (e *testEngine) deriveTrusting(t *testing.T) string {
	t.Helper()
	trusted, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	assert.NilError(t, err)
	upstream, err := e.Client.ImageInspect(t.Context(), e.base)
	assert.NilError(t, err)
	const dockerfile = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY trusted.crt /etc/ssl/certs/ca-certificates.crt\n" +
		"ENV GOPATH=/go CARGO_HOME=/usr/local/cargo PIP_CACHE_DIR=/srv/pip npm_config_cache=/srv/npm\n"
	tag := fmt.Sprintf("%s:%.12x", trustingBase, sha256.Sum256([]byte(upstream.ID+dockerfile+string(trusted))))
	if _, err := e.Client.ImageInspect(t.Context(), tag); err == nil {
		return tag
	}
	files := staticfs.NewFS()
	files.Add("trusted.crt", &fstypes.Stat{Mode: 0o644}, trusted)
	b, out := e.builder(t)
	spec := buildSpec{tag: tag, base: e.base, context: files, dockerfile: []byte(dockerfile)}
	assert.NilError(t, b.build(t.Context(), spec, false), "%s", out)
	return tag
}

const trustingBase = "ralph-test-projectimage-trusting"

// removeOutdated removes the images of an agent that earlier tests have left,
// and bases that nobody needs any more.
func (e *testEngine) removeOutdated(t *testing.T, base, agent, current string) {
	t.Helper()
	all, err := e.ImageList(t.Context(), client.ImageListOptions{})
	assert.NilError(t, err)
	for _, image := range all.Items {
		of := image.Labels["io.github.docker-ralph.base"]
		outdated := strings.HasPrefix(of, trustingBase+":") && image.Labels["io.github.docker-ralph.agent"] == agent
		for _, tag := range image.RepoTags {
			if outdated && tag != current || tag != base && strings.HasPrefix(tag, trustingBase+":") {
				_, err := e.ImageRemove(t.Context(), tag, client.ImageRemoveOptions{})
				assert.NilError(t, err)
			}
		}
	}
}

// runReadOnly is run in a container that can write to its home and /tmp alone.
func (e *testEngine) runReadOnly(t *testing.T, image, script string) string {
	t.Helper()
	result := icmd.RunCommand("docker", "-H", e.host, "run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "-v", "/home/agent", image, "sh", "-ec", script)
	result.Assert(t, icmd.Success)
	return strings.TrimSpace(result.Stdout())
}

func TestEngineNoRootWithoutPassword(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		base := e.derive(t, `RUN mkdir -p /etc/sudoers.d && printf 'Defaults env_reset\nagent ALL=(ALL) NOPASSWD: ALL\n' >/etc/sudoers.d/agent && echo 'permit nopass agent' >/etc/doas.conf`)
		image, err := e.ensure(t, Request{Agent: "shell", Base: base})
		assert.NilError(t, err)
		assert.Equal(t, e.run(t, image.Ref, `cat /etc/sudoers.d/agent /etc/doas.conf`),
			"Defaults env_reset\n# agent ALL=(ALL) NOPASSWD: ALL\n# permit nopass agent")
	})
}

// TestEngineInstallsGit needs a Debian mirror that containers can reach.
func TestEngineInstallsGit(t *testing.T) {
	if testing.Short() {
		t.Skip("installs packages")
	}
	onEngines(t, func(t *testing.T, e *testEngine) {
		base := e.derive(t, `RUN dpkg --purge git && ! command -v git`)
		image, err := e.ensure(t, Request{Agent: "shell", Base: base})
		assert.NilError(t, err)
		assert.Assert(t, cmp.Contains(e.run(t, image.Ref, `git --version; ls /var/lib/apt/lists`), "git version 2"))
	})
}
