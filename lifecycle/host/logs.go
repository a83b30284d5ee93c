package host

import (
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// LogsDir is the directory with the logs of a scope's loops and the transcripts of its other commands. The name is
// that of the worktree's sandbox. It stays when the sandbox is removed.
func (h Host) LogsDir(name string) string { return scopes.Path(h.StateDir, name, "logs") }

// LogsOf is the directory of logs of a sandbox's worktree, which an ephemeral sandbox uses as well.
func (h Host) LogsOf(sb lifecycle.Sandbox) string {
	name, err := h.SandboxName(gitrepo.Worktree{Root: sb.Root, MainRoot: sb.MainRoot, Scope: sb.Scope})
	if err != nil { // it has no scope
		name = sb.Name
	}
	return h.LogsDir(name)
}
