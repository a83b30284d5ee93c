package container

import (
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// The labels of containers, networks, volumes and images.
const (
	labelPrefix     = "io.github.docker-ralph."
	labelCreatedBy  = labelPrefix + "created-by"
	labelSandbox    = labelPrefix + "sandbox"
	labelRepo       = labelPrefix + "scope.repo"
	labelBranch     = labelPrefix + "scope.branch"
	labelRoot       = labelPrefix + "root"
	labelWorktree   = labelPrefix + "worktree"
	labelAgent      = labelPrefix + "agent"
	labelImage      = labelPrefix + "image"
	labelVersion    = labelPrefix + "version"
	labelConfigHash = labelPrefix + "config-hash"
	labelUser       = labelPrefix + "user"
	labelEphemeral  = labelPrefix + "ephemeral"
	labelEgress     = labelPrefix + "egress"  // mode of the network policy
	labelProxy      = labelPrefix + "proxy"   // IP address of the proxy
	labelNetwork    = labelPrefix + "network" // name of the sandbox's network
	labelRun        = labelPrefix + "run"     // networks of the engine for which a proxy was created
	labelRole       = labelPrefix + "role"    // of everything but sandboxes
	labelSign       = labelPrefix + "sign"    // directory of the signing socket, if any
	labelConfig     = labelPrefix + "config"  // directory of the user's agent settings, if any
	labelCache      = labelPrefix + "cache"   // cache volume
	labelGit        = labelPrefix + "git"     // "private" for a private git directory

	createdBy = "docker-ralph"
)

// Values of labelRole.
const (
	roleNetwork = "network"
	roleEgress  = "egress"
	roleProxy   = "proxy"
	roleHelper  = "helper"
	roleNetns   = "netns" // of earlier versions
	roleSockets = "sockets"
	roleGit     = "git"
	roleCache   = "cache"
)

// ownLabels returns the labels of something that belongs to a sandbox.
func ownLabels(sandbox, role string) map[string]string {
	return map[string]string{labelCreatedBy: createdBy, labelSandbox: sandbox, labelRole: role}
}

func labels(spec lifecycle.Spec) map[string]string {
	l := map[string]string{
		labelCreatedBy:  createdBy,
		labelSandbox:    spec.Name,
		labelRepo:       spec.Scope.Repo,
		labelBranch:     spec.Scope.Branch,
		labelRoot:       spec.MainRoot,
		labelWorktree:   spec.Root,
		labelAgent:      spec.Agent,
		labelImage:      spec.Image,
		labelVersion:    spec.Version,
		labelConfigHash: spec.Hash(),
		labelEphemeral:  strconv.FormatBool(spec.Ephemeral),
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
		Name:       l[labelSandbox],
		ID:         id,
		Scope:      gitrepo.Scope{Repo: l[labelRepo], Branch: l[labelBranch]},
		Root:       l[labelWorktree],
		MainRoot:   l[labelRoot],
		Agent:      l[labelAgent],
		Image:      l[labelImage],
		ConfigHash: l[labelConfigHash],
		Ephemeral:  l[labelEphemeral] == "true",
		User:       l[labelUser],
		Egress:     egress.Mode(l[labelEgress]),
		Proxy:      l[labelProxy],
		Private:    l[labelGit] == gitPrivate,
		SignDir:    l[labelSign],
		Cache:      l[labelCache],
	}
	if sb.Config = l[labelConfig]; sb.Config != "" {
		sb.ConfigAt = wire.ConfigPoint
	}
	return sb
}

// isSandbox reports whether labels are those of the sandbox with that name.
func isSandbox(l map[string]string, name string) bool {
	return l[labelCreatedBy] == createdBy && l[labelSandbox] == strings.TrimPrefix(name, "/")
}
