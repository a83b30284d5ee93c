// Package refname names the refs of a sandbox in the user's repository, below
// refs/ralph/SANDBOX/.
package refname

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

// branchName are the branches of an agent that keep their name in the user's
// repository.
var (
	branchName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$`)
	badPart    = lazyregexp.New(`(^|/)[.-]|\.\.|//|/$|\.$|\.lock(/|$)|^HEAD$`)
)

// Names that no branch has.
const (
	Head    = "@head"     // commits on no branch
	Stash   = "@stash"    // the latest stash
	Merged  = "@merged"   // a merge of both sides
	unusual = "@renamed-" // branches with an unusual name
	Kept    = "@kept-"    // commits whose names others have
	Undone  = "@undone/"  // the commits of a loop that were taken back; its ID follows
	// Submodule is above commits that add a submodule and must not get on a branch
	// of the user. A name that was in a hint never leads to one.
	Submodule = "@submodule/"
)

// Attempts begins the names of attempts in the user's repository, which no other branch gets.
const Attempts = "attempts/"

// OlderStash begins the name that a listing has for older stashes; the commit follows.
const OlderStash = "refs/stash@"

// local returns the name for a ref of the sandbox. own is the user's branch.
func local(ref, own string) string {
	name, isBranch := strings.CutPrefix(ref, "refs/heads/")
	attempt, isAttempt := strings.CutPrefix(ref, attemptref.Prefix)
	switch {
	case ref == "HEAD":
		return Head
	case ref == "refs/stash":
		return Stash
	case strings.HasPrefix(ref, OlderStash):
		return Stash + "-" + ref[len(OlderStash):]
	case isAttempt && name != own && usual(attempt):
		return Attempts + attempt
	case isBranch && (name == own || usual(name) && !isAttempt && !strings.HasPrefix(name, Attempts)):
		return name
	default:
		return unusualName(ref)
	}
}

func usual(name string) bool {
	return branchName().MatchString(name) && !badPart().MatchString(name)
}

func unusualName(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return unusual + hex.EncodeToString(sum[:6])
}

// Locals returns a name for each ref of the sandbox. Names that are
// equal but for case, or a directory of one another, get another one; the user's branch
// goes first. submodules are the commits that add one.
func Locals(refs map[string]string, own string, submodules map[string]string) map[string]string {
	taken, dirs := map[string]bool{}, map[string]bool{}
	names := map[string]string{}
	for _, ref := range Sorted(refs, own) {
		dir := ""
		if submodules[refs[ref]] != "" {
			dir = Submodule
		}
		name := dir + local(ref, own)
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

// Sorted returns refs in order, the user's branch first.
func Sorted(refs map[string]string, own string) []string {
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
