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
	name, err := h.ScopeName(sb)
	if err != nil { // it has no scope
		name = sb.Name
	}
	return h.LogsDir(name)
}

// ScopeName is the name of the scope with the state of a sandbox's worktree, which an ephemeral sandbox has as well. The
// state of a worktree that was moved belongs to its new root at once, its sandbox only when it is recreated.
func (h Host) ScopeName(sb lifecycle.Sandbox) (string, error) {
	if !sb.Ephemeral && Missing(sb.Root) {
		if o, found, err := owners.Read(h.StateDir, sb.Name); err == nil && found && o.Scope == sb.Scope {
			return sb.Name, nil
		}
	}
	return h.SandboxName(gitrepo.Worktree{Root: sb.Root, MainRoot: sb.MainRoot, Scope: sb.Scope})
}
