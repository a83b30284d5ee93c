package container

import (
	"cmp"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire"
)

// The labels of containers, networks, volumes and images.
const (
	labelRepo      = engine.LabelPrefix + "scope.repo"
	labelBranch    = engine.LabelPrefix + "scope.branch"
	labelRoot      = engine.LabelPrefix + "root"
	labelWorktree  = engine.LabelPrefix + "worktree"
	labelAgent     = engine.LabelPrefix + "agent"
	labelImage     = engine.LabelPrefix + "image"
	labelVersion   = engine.LabelPrefix + "version"
	labelSettings  = engine.LabelPrefix + "settings" // [lifecycle.Spec.Settings]
	labelLimits    = engine.LabelPrefix + "limits"   // [limits]
	labelRules     = engine.LabelPrefix + "rules"    // of a proxy: [lifecycle.Egress.Rules]
	labelUser      = engine.LabelPrefix + "user"
	labelEphemeral = engine.LabelPrefix + "ephemeral"
	labelEgress    = engine.LabelPrefix + "egress"    // mode of the network policy
	labelProxy     = engine.LabelPrefix + "proxy"     // IP address of the proxy
	labelNetwork   = engine.LabelPrefix + "network"   // name of the sandbox's network
	labelRun       = engine.LabelPrefix + "run"       // networks of the engine for which a proxy was created
	labelSign      = engine.LabelPrefix + "sign"      // directory of the signing socket, if any
	labelConfig    = engine.LabelPrefix + "config"    // directory of the user's agent settings, if any
	labelCache     = engine.LabelPrefix + "cache"     // cache volume
	labelGit       = engine.LabelPrefix + "git"       // "private" for a git directory of its own
	labelWorkspace = engine.LabelPrefix + "workspace" // "clone" for a clone of the worktree

	labelClientName = engine.LabelClient + ".name" // [clientName] of engine.LabelClient, for messages
)

// Values of engine.LabelRole.
const (
	roleNetwork = "network"
	roleEgress  = "egress"
	roleProxy   = "proxy"
	roleSockets = "sockets"
	RoleGit     = "git"
	RoleClone   = "clone"
	RoleCache   = "cache"
)

// workspaceClone is the value of labelWorkspace.
const workspaceClone = "clone"

func labels(spec lifecycle.Spec) map[string]string {
	l := map[string]string{
		engine.LabelCreatedBy: engine.CreatedBy,
		engine.LabelSandbox:   spec.Name,
		labelRepo:             spec.Scope.Repo,
		labelBranch:           spec.Scope.Branch,
		labelRoot:             spec.MainRoot,
		labelWorktree:         spec.Root,
		labelAgent:            spec.Agent,
		labelImage:            spec.Image,
		labelVersion:          spec.Version,
		labelSettings:         spec.Settings(),
		labelEphemeral:        strconv.FormatBool(spec.Ephemeral),
	}
	if spec.Clone {
		l[labelWorkspace] = workspaceClone
	}
	if spec.SignDir != "" {
		l[labelSign] = spec.SignDir
	}
	if spec.Config != "" {
		l[labelConfig] = spec.Config
	}
	return l
}

// fromLabels is the inverse of labels.
func fromLabels(id string, l map[string]string) lifecycle.Sandbox {
	sb := lifecycle.Sandbox{
		Name:      l[engine.LabelSandbox],
		ID:        id,
		Client:    l[engine.LabelClient],
		Scope:     gitrepo.Scope{Repo: l[labelRepo], Branch: l[labelBranch]},
		Root:      l[labelWorktree],
		MainRoot:  l[labelRoot],
		Agent:     l[labelAgent],
		Image:     l[labelImage],
		Settings:  l[labelSettings],
		Ephemeral: l[labelEphemeral] == "true",
		User:      l[labelUser],
		Egress:    egress.Mode(l[labelEgress]),
		Proxy:     l[labelProxy],
		Private:   l[labelGit] == gitPrivate,
		Clone:     l[labelWorkspace] == workspaceClone,
		SignDir:   l[labelSign],
		Cache:     l[labelCache],
	}
	if sb.Config = l[labelConfig]; sb.Config != "" {
		sb.ConfigAt = wire.ConfigPoint
	}
	return sb
}

// labelClient adds the labels of the client that creates something.
func labelClient(l map[string]string, id string) {
	l[engine.LabelClient], l[labelClientName] = id, clientName()
}

// clientName describes this client to others: its user and machine.
func clientName() string {
	name, machine := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		machine = h
	}
	return name + "@" + machine
}

// otherClient names the client that created something, according to its labels, if it is not the client with
// the ID own. What an earlier version created belongs to any client.
func otherClient(l map[string]string, own string) string {
	id := l[engine.LabelClient]
	if id == "" || id == own {
		return ""
	}
	return cmp.Or(l[labelClientName], id)
}

// checkClient returns an error if another client has created something, according to its labels.
func (d *Driver) checkClient(l map[string]string, what, name string) error {
	own, err := scopes.ClientID(d.StateDir)
	if err != nil {
		return err
	}
	if other := otherClient(l, own); other != "" {
		return lifecycle.PartOfOtherClient(name, what, other)
	}
	return nil
}

// isSandbox reports whether labels are those of the sandbox with that name.
func isSandbox(l map[string]string, name string) bool {
	return l[engine.LabelCreatedBy] == engine.CreatedBy && l[engine.LabelSandbox] == strings.TrimPrefix(name, "/")
}
