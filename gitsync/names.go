package gitsync

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// branchName are the branches of an agent that keep their name in the user's
// repository.
var (
	branchName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$`)
	badPart    = lazyregexp.New(`(^|/)[.-]|\.\.|//|/$|\.$|\.lock(/|$)|^HEAD$`)
	objectID   = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// Names below [Repo.Prefix] that no branch has.
const (
	headRef    = "@head"   // commits on no branch
	stashRef   = "@stash"  // the latest stash
	mergedRef  = "@merged" // a merge of both sides
	unusualRef = "@odd-"   // branches with an unusual name
	keptRef    = "@kept-"  // commits whose names others have
	// submoduleRef is above commits that add a submodule and must not get on a branch
	// of the user. A name that was in a hint never leads to one.
	submoduleRef = "@submodule/"
)

// olderStash begins the name that a listing has for older stashes; the commit follows.
const olderStash = "refs/stash@"

// localName returns the name below the prefix for a ref of the sandbox. own is the
// user's branch.
func localName(ref, own string) string {
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
		return unusualName(ref)
	}
}

func unusualName(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return unusualRef + hex.EncodeToString(sum[:6])
}

// localNames returns a name below the prefix for each ref of the sandbox. Names that are
// equal but for case, or a directory of one another, get another one; the user's branch
// goes first. submodules are the commits that add one.
func localNames(refs map[string]string, own string, submodules map[string]string) map[string]string {
	taken, dirs := map[string]bool{}, map[string]bool{}
	names := map[string]string{}
	for _, ref := range sortedRefs(refs, own) {
		dir := ""
		if submodules[refs[ref]] != "" {
			dir = submoduleRef
		}
		name := dir + localName(ref, own)
		if key := strings.ToLower(name); taken[key] || dirs[key] || slices.ContainsFunc(parents(key), func(dir string) bool { return taken[dir] }) {
			name = dir + unusualName(ref)
		}
		names[ref] = name
		key := strings.ToLower(name)
		taken[key] = true
		for _, dir := range parents(key) {
			dirs[dir] = true
		}
	}
	return names
}

// sortedRefs returns refs in order, the user's branch first.
func sortedRefs(refs map[string]string, own string) []string {
	sorted := slices.Sorted(maps.Keys(refs))
	if i := slices.Index(sorted, "refs/heads/"+own); i > 0 {
		sorted = slices.Insert(slices.Delete(sorted, i, i+1), 0, "refs/heads/"+own)
	}
	return sorted
}

// parents returns the directories of a name.
func parents(name string) []string {
	var dirs []string
	for i, c := range name {
		if c == '/' {
			dirs = append(dirs, name[:i])
		}
	}
	return dirs
}
