package projectimage

import (
	"errors"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
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
		assert.DeepEqual(t, inspect.Config.Labels, map[string]string{
			"io.github.docker-ralph.agent":      "shell",
			"io.github.docker-ralph.base":       e.base,
			"io.github.docker-ralph.created-by": "docker-ralph",
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

func TestEngineRebuild(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		req := Request{Agent: "shell", Base: e.base}
		first, err := e.ensure(t, req)
		assert.NilError(t, err)

		_, err = e.ImageRemove(t.Context(), first.Ref, client.ImageRemoveOptions{})
		assert.NilError(t, err)
		cached, err := e.ensure(t, req)
		assert.NilError(t, err)
		assert.Assert(t, cached.Built)
		assert.Equal(t, cached.ID, first.ID, "a build from the cache gives the same image")

		req.Rebuild = true
		b, out := e.builder(t)
		fresh, err := b.Ensure(t.Context(), req)
		assert.NilError(t, err)
		assert.Assert(t, fresh.Built)
		assert.Assert(t, fresh.ID != first.ID, "the steps ran again")
		e.removeAfter(t, first.ID) // its tag is the fresh one's now
		assert.Assert(t, cmp.Contains(out.String(), "going on with the one that is here"))
	})
}

func TestEngineUserOnAnyBase(t *testing.T) {
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

func TestEngineClaudeImage(t *testing.T) {
	const claude = `printf '#!/bin/sh\necho the claude of the base\n' >$f && chmod 755 $f`
	for _, tc := range []struct {
		name, base, want string
	}{
		{"on the PATH", `RUN f=/usr/bin/claude; ` + claude, "/usr/bin/claude\nthe claude of the base"},
		{
			"in the home of agent", `RUN useradd -m -u 1000 agent; mkdir -p /home/agent/.local/bin; f=/home/agent/.local/bin/claude; ` + claude,
			"/usr/local/bin/claude\nthe claude of the base",
		},
		{
			// npm itself needs a network; what it is asked for is what counts.
			"installed with npm", `RUN f=/usr/bin/npm; printf '#!/bin/sh\nprintf "#!/bin/sh\\necho $*\\n" >/usr/bin/claude; chmod 755 /usr/bin/claude' >$f && chmod 755 $f`,
			"/usr/bin/claude\ninstall --global --no-audit --no-fund @anthropic-ai/claude-code@" + pinnedClaude(t),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, e *testEngine) {
				image, err := e.ensure(t, Request{Agent: "claude", Base: e.derive(t, tc.base)})
				assert.NilError(t, err)
				assert.Equal(t, e.run(t, image.Ref, `command -v claude; claude`), tc.want)
			})
		})
	}
}

func TestEngineClaudeCannotBe(t *testing.T) {
	for _, tc := range []struct {
		name, base, want string
	}{
		{
			"neither claude nor npm", "",
			"the base image has neither claude nor npm to install it with: take a base that has one of them",
		},
		{
			"claude only for root", "RUN mkdir -m 700 /root/bin; cp /bin/true /root/bin/claude\nENV PATH=/root/bin:$PATH",
			"the claude of the base image cannot be run by user agent: take a base in which it is readable for everybody",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, e *testEngine) {
				_, err := e.ensure(t, Request{Agent: "claude", Base: e.derive(t, tc.base)})
				var buildErr *BuildError
				assert.Assert(t, errors.As(err, &buildErr), "%v", err)
				assert.Assert(t, len(buildErr.Log) > 0)
				assert.Equal(t, buildErr.Log[len(buildErr.Log)-1], tc.want)
				assert.ErrorContains(t, err, tc.want)
			})
		})
	}
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
