package run

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential/sshsign"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// signer signs the commits of one command.
type signer struct {
	agent sshsign.Agent
	key   sshsign.Key
	dir   string // of the socket
}

// signs returns a signer that uses the user's ssh-agent; nil, with a warning, where that is
// impossible. It is an error if the key is not in the ssh-agent.
func signs(ctx context.Context, h host.Host, t Target, private bool, spec *lifecycle.Spec) (*signer, error) {
	why, err := makeSignable(ctx, h, t, private, spec)
	if err != nil {
		return nil, err
	}
	if why != "" {
		h.Report("Warning: sandbox.sign has no effect, and commits are not signed: " + why)
	}
	if spec.SignDir == "" {
		return nil, nil
	}
	s := &signer{agent: sshsign.Agent(h.Getenv("SSH_AUTH_SOCK")), dir: spec.SignDir}
	s.key, err = sshsign.ReadKey(t.wt.Config.SigningKey())
	if err == nil {
		err = s.agent.Check(ctx, s.key)
	}
	if err != nil {
		return nil, hint.Wrap(err, "or disable signing with --sign=false")
	}
	return s, nil
}

// makeSignable gives the sandbox the directory of the socket, if commits are to be signed. It returns why that
// is impossible.
func makeSignable(ctx context.Context, h host.Host, t Target, private bool, spec *lifecycle.Spec) (why string, err error) {
	if !t.cfg.Sandbox.Sign {
		return "", nil
	}
	if why, err = whyUnsigned(ctx, t.Driver, private, *spec); err == nil && why == "" {
		spec.SignDir = sshsign.Dir(h.StateDir, spec.Name)
	}
	return why, err
}

// whyUnsigned returns why commits cannot be signed; empty if they can.
func whyUnsigned(ctx context.Context, d lifecycle.Driver, private bool, spec lifecycle.Spec) (string, error) {
	driver, ok := d.(*container.Driver)
	switch {
	case !ok:
		return "only containers can reach the ssh-agent", nil
	case !private:
		return fmt.Sprintf("it needs a clone (%s = %q), because otherwise the agent can change which key signs", config.KeyWorkspace, config.WorkspaceClone), nil
	}
	return driver.Signs(ctx, spec.Runtime)
}

// serve signs for a process until stop is called, and configures git in the process for that.
func (s *signer) serve(ctx context.Context, r Ready, sb lifecycle.Sandbox, p lifecycle.Process) (signing lifecycle.Process, stop func(), err error) {
	driver, ok := r.Driver.(*container.Driver)
	if s == nil || !ok {
		return p, func() {}, nil
	}
	program, err := driver.SignProgram(sb)
	if err != nil {
		return p, nil, err
	}
	socket, stop, err := sshsign.Serve(ctx, s.dir, s.agent, s.key)
	if err != nil {
		return p, nil, err
	}
	p.Env = append(container.WithGitConfig(p.Env, [][2]string{
		{"gpg.format", "ssh"},
		{"gpg.ssh.program", program},
		{"user.signingKey", s.key.Setting()},
		{"commit.gpgSign", "true"},
	}), wire.SignSocketEnv+"="+path.Join(wire.SignDir, socket))
	return p, stop, nil
}

// warnUnsigned warns that the signer ends with a detached command.
func warnUnsigned(h host.Host, r Ready, err error) {
	if r.signer != nil && errors.Is(err, lifecycle.ErrDetached) {
		h.Report("Warning: commits in the sandbox fail from now on: they are signed only while you are attached")
	}
}
