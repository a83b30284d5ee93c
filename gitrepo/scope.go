// Package gitrepo runs git and finds the repository, branch and worktree of a command, and
// the name of its sandbox. No program that the repository configures is run.
package gitrepo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// maxName is the longest sandbox name that every driver accepts.
const maxName = 63

// Scope is the repository and the branch of a sandbox.
type Scope struct {
	// Repo is the repository's slug, "owner/repo", or RALPH_SCOPE_REPO.
	Repo string
	// Branch is the branch without "refs/heads/", or RALPH_SCOPE_BRANCH.
	Branch string
}

// Environ passes the scope into a sandbox, where git does not decide it: an agent can check
// out another branch, and change the remotes.
func (s Scope) Environ() []string {
	return []string{"RALPH_SCOPE_REPO=" + s.Repo, "RALPH_SCOPE_BRANCH=" + s.Branch}
}

// SandboxName derives the name ralph-{repo}-{branch} of the scope's sandbox: at most 63
// letters, digits and single dashes. It is stable but not unique, so a lookup has to compare
// the recorded scope.
func (s Scope) SandboxName() (string, error) {
	if s.Repo == "" {
		return "", hint.Wrap(errors.New("no repository in the scope"), "set RALPH_SCOPE_REPO=owner/repo")
	}
	if s.Branch == "" {
		return "", hint.Wrap(errors.New("no branch in the scope"), "check out a branch or set RALPH_SCOPE_BRANCH")
	}
	name := "ralph-" + component(s.Repo) + "-" + component(s.Branch)
	if len(name) > maxName {
		name = strings.TrimRight(name[:maxName], "-")
	}
	return name, nil
}

// ownSuffix is the length of the suffix of [Worktree.OwnName].
const ownSuffix = 7

// OwnName is the name of the scope's sandbox if another scope or worktree has
// [Scope.SandboxName]: that name, shortened if necessary, a dash, and six hex digits of the
// SHA-256 of the worktree's path, the repository and the branch.
func (w Worktree) OwnName() (string, error) {
	name, err := w.Scope.SandboxName()
	if err != nil {
		return "", err
	}
	if limit := maxName - ownSuffix; len(name) > limit {
		name = strings.TrimRight(name[:limit], "-")
	}
	sum := sha256.Sum256([]byte(w.Root + "\x00" + w.Scope.Repo + "\x00" + w.Scope.Branch))
	return name + "-" + hex.EncodeToString(sum[:])[:ownSuffix-1], nil
}

// component is a sanitized part of the name. A part without ASCII letters and digits (a
// branch named "日本") is replaced by the start of its SHA-256.
func component(part string) string {
	if clean := sanitize(part); clean != "" {
		return clean
	}
	sum := sha256.Sum256([]byte(part))
	return hex.EncodeToString(sum[:4])
}

// sanitize replaces other characters than ASCII letters and digits by single dashes, and
// trims dashes.
func sanitize(part string) string {
	var b strings.Builder
	for i := range len(part) {
		c := part[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			b.WriteByte(c)
		} else if s := b.String(); s != "" && s[len(s)-1] != '-' {
			b.WriteByte('-')
		}
	}
	return strings.TrimRight(b.String(), "-")
}
