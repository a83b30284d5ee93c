// Package gitrepo runs git and answers which repository, branch and work tree
// a command was given for, and what the sandbox of that scope is called.
//
// It asks the git program and believes nothing that the repository could have
// set to run a program of its own.
package gitrepo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

// maxName is the longest sandbox name that every driver takes.
const maxName = 63

// Scope is what one sandbox belongs to: a repository and a branch.
type Scope struct {
	// Repo is the repository's slug, "owner/repo", or what RALPH_SCOPE_REPO
	// says.
	Repo string
	// Branch is the branch's name without "refs/heads/", or what
	// RALPH_SCOPE_BRANCH says.
	Branch string
}

// SandboxName derives the name ralph-{repo}-{branch} of the scope's sandbox.
// It has 63 characters at most, all of them letters, digits and single dashes,
// so that every driver takes it. The same scope always yields the same name;
// two scopes can yield one name too, and whoever looks a sandbox up has to
// compare its recorded scope. It is an error if either part is empty.
func (s Scope) SandboxName() (string, error) {
	if s.Repo == "" {
		return "", errors.New("the scope names no repository: set RALPH_SCOPE_REPO=owner/repo")
	}
	if s.Branch == "" {
		return "", errors.New("the scope names no branch: check out a branch or set RALPH_SCOPE_BRANCH")
	}
	name := "ralph-" + component(s.Repo) + "-" + component(s.Branch)
	if len(name) > maxName {
		name = strings.TrimRight(name[:maxName], "-")
	}
	return name, nil
}

// ownSuffix is the length of what [Worktree.OwnName] adds.
const ownSuffix = 7

// OwnName is the name of the scope's sandbox where another scope or worktree has
// [Scope.SandboxName] already: that name, shortened if need be, a dash, and six hex
// digits of the SHA-256 of the worktree's path, the repository and the branch.
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

// component is one sanitised part of the name. A part without a single ASCII
// letter or digit (a branch named "日本") is legitimate, but nothing would be
// left of it: it is stood in for by the start of its SHA-256, so that such
// branches work and stay apart.
func component(part string) string {
	if clean := sanitise(part); clean != "" {
		return clean
	}
	sum := sha256.Sum256([]byte(part))
	return hex.EncodeToString(sum[:4])
}

// sanitise turns every run of characters other than ASCII letters and digits
// into one dash, and leaves none at either end.
func sanitise(part string) string {
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
