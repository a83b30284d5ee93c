package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
)

// Hash returns 12 hex digits over everything that requires recreating the sandbox
// when it changes.
func (s Spec) Hash() string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %q %q %q %v %v", s.Root, s.Mounts, s.Agent, s.Image, s.Resources, s.User)
	if s.Private {
		_, _ = fmt.Fprint(h, " private")
	}
	if s.ReadOnly {
		_, _ = fmt.Fprint(h, " read-only")
	}
	if s.Runtime != "" {
		_, _ = fmt.Fprintf(h, " runtime %q", s.Runtime)
	}
	if s.SignDir != "" {
		_, _ = fmt.Fprintf(h, " sign %q", s.SignDir)
	}
	if s.Config != "" {
		_, _ = fmt.Fprint(h, " config") // not its path: users with other state directories share the sandbox
	}
	if s.Cache != "" {
		_, _ = fmt.Fprint(h, " cache")
		if s.MainRoot == "" {
			_, _ = fmt.Fprintf(h, " of %q", s.Cache) // earlier sandboxes shared one cache among all bare repositories
		}
	}
	if len(s.Shadows) > 0 {
		_, _ = fmt.Fprint(h, " shadows")
	}
	if s.Egress.Policy.Mode != "" {
		_, _ = fmt.Fprintf(h, " isolated egress %s", s.Egress.digest())
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// matches reports whether a sandbox matches the spec.
func (s Spec) matches(sb Sandbox) bool { return sb.ConfigHash == s.Hash() }

// digest identifies a policy, regardless of the order and the origin of its rules.
func (e Egress) digest() string {
	var lines []string
	for kind, entries := range map[string][]egress.Entry{"allow": e.Policy.Rules, "refuse": e.Policy.Refused} {
		for _, entry := range entries {
			lines = append(lines, fmt.Sprintf("%s %s %t", kind, entry.Rule, entry.Model))
		}
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s %q", e.Policy.Mode, slices.Compact(lines))
}

// Check checks that a sandbox with the spec's name belongs to the same scope and
// worktree. Names do not contain the whole scope, so they can collide.
func (s Spec) Check(sb Sandbox) error {
	if sb.Scope != s.Scope || sb.Root != s.Root {
		return fmt.Errorf("the sandbox %s belongs to %s, branch %q, in %s", sb.Name, sb.Scope.Repo, sb.Scope.Branch, sb.Root)
	}
	return nil
}

// canAdopt reports whether a sandbox may be recreated for the spec's worktree, because
// its own has moved there.
func (s Spec) canAdopt(sb Sandbox) bool {
	return s.Moved != "" && s.Moved == sb.Root && s.Scope == sb.Scope
}

// differences describes how a sandbox differs from the spec.
func (s Spec) differences(sb Sandbox) string {
	var what []string
	if sb.Root != s.Root {
		what = append(what, fmt.Sprintf("the worktree %s, which is gone, instead of %s", sb.Root, s.Root))
	}
	if sb.Agent != s.Agent {
		what = append(what, fmt.Sprintf("agent %s instead of %s", s.Agent, sb.Agent))
	}
	if sb.Image != s.Image {
		what = append(what, fmt.Sprintf("image %s instead of %s", s.Image, sb.Image))
	}
	if sb.Egress != "" && sb.Egress != s.Egress.Policy.Mode {
		what = append(what, fmt.Sprintf("network policy %q instead of %q", s.Egress.Policy.Mode, sb.Egress))
	}
	if len(what) == 0 {
		what = append(what, "mounts, limits, user, git, signatures or network")
	}
	return strings.Join(what, ", ")
}
