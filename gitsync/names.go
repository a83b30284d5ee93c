package gitsync

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// branchName are the names of branches that an agent may choose for refs of the
// user's repository. Those of the user may be anything that git takes.
var (
	branchName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$`)
	badPart    = lazyregexp.New(`(^|/)[.-]|\.\.|//|/$|\.$|\.lock(/|$)|^HEAD$`)
	objectID   = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// Names of refs below [Repo.Prefix] that no branch can have.
const (
	headRef   = "@head"   // commits that are on no branch
	stashRef  = "@stash"  // what was stashed in the sandbox
	mergedRef = "@merged" // a merge of both sides that the user can take
	oddRef    = "@odd-"   // branches whose names the user's repository shall not have
	keptRef   = "@kept-"  // commits whose names others have now
	// Below this are commits that must not come to a branch of the user's, because
	// they have a submodule. A name that was advised once never leads to one.
	submoduleRef = "@submodule/"
)

// olderStash begins what we call a stash that is not the youngest; its commit
// follows.
const olderStash = "refs/stash@"

// place returns the name below the prefix for a ref of the sandbox. own is the
// user's branch.
func place(ref, own string) string {
	name, isBranch := strings.CutPrefix(ref, "refs/heads/")
	switch {
	case ref == "HEAD":
		return headRef
	case ref == "refs/stash":
		return stashRef
	case strings.HasPrefix(ref, olderStash):
		return stashRef + "-" + ref[len(olderStash):]
	case isBranch && (name == own || branchName().MatchString(name) && !badPart().MatchString(name)):
		return name
	default:
		return odd(ref)
	}
}

func odd(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return oddRef + hex.EncodeToString(sum[:6])
}

// places gives each ref of the sandbox a place, by their commits; barred are those
// with a submodule. Names that a file system could
// take for one another, and names that are folders of others, cannot stand side
// by side: the user's own branch goes first, the rest in order.
func places(refs map[string]string, own string, barred map[string]string) map[string]string {
	taken := map[string]bool{}
	folders := map[string]bool{}
	given := map[string]string{}
	give := func(ref string) {
		name, folder := place(ref, own), ""
		if barred[refs[ref]] != "" {
			folder = submoduleRef
		}
		name = folder + name
		if key := strings.ToLower(name); taken[key] || folders[key] || above(taken, key) {
			name = folder + odd(ref)
		}
		given[ref] = name
		key := strings.ToLower(name)
		taken[key] = true
		for i, c := range key {
			if c == '/' {
				folders[key[:i]] = true
			}
		}
	}
	mine := "refs/heads/" + own
	if _, is := refs[mine]; is {
		give(mine)
	}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if ref != mine {
			give(ref)
		}
	}
	return given
}

// above says whether a folder of the name is taken as a name itself.
func above(taken map[string]bool, name string) bool {
	for i, c := range name {
		if c == '/' && taken[name[:i]] {
			return true
		}
	}
	return false
}
