package gitsync

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/refname"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Result is what a sync has changed in the user's repository.
type Result struct {
	// Branch is the user's branch, and Commits how many commits it was fast-forwarded
	// by.
	Branch  string
	Commits int
	// Conflict says why the branch was not fast-forwarded; nil if nothing was in the way.
	Conflict *Conflict
	// Others are further refs of the sandbox that were fetched; the values are refs of
	// the user's repository.
	Others map[string]string
	// Submodules are the paths of submodules in those of Others that add one.
	Submodules map[string]string
	// Refused are refs of the sandbox that cannot be fetched, and why.
	Refused map[string]string
	// Uncommitted are files with uncommitted changes of the user, which the sandbox does not have.
	Uncommitted []string
	// Sent are files with uncommitted changes of the user that a clone has got.
	Sent []string
	// Included are the ignored files that a clone has got.
	Included []string
	// Emptied says that the working tree of a clone was removed, and is checked out again.
	Emptied bool
	// Unsent are repositories in the working tree, which are not sent to a clone.
	Unsent []string
	// GitDirs are git directories that the command has created among the files of the working tree, such as
	// bare repositories.
	GitDirs []string
	// Kept are refs of the user's repository that were replaced, and the refs that have
	// their commits now.
	Kept map[string]string
	// Unaccepted is the ref of commits of a loop on the branch that no accepted run has made; empty for none.
	Unaccepted string

	notIncluded  []string          // links and the like that match what is included
	unchecked    error             // why GitDirs are unknown
	fresh        map[string]bool   // those of Refused that were not reported before
	tip          string            // of the sandbox's branch
	goal         string            // its commit for the user's branch; empty if that gets none
	head         string            // the ref that the sandbox has checked out; empty if detached
	switchedBack string            // output of checking the branch out again
	refs         map[string]string // of the sandbox
}

// Notes returns the report for the user.
func (res Result) Notes() []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case res.Commits == 1:
		add("1 commit of the sandbox is on your branch %s", res.Branch)
	case res.Commits > 1:
		add("%d commits of the sandbox are on your branch %s", res.Commits, res.Branch)
	}
	if res.switchedBack != "" {
		notes = append(notes, res.switchedBack)
	}
	if res.Unaccepted != "" {
		add("Commits of a run that was not completed are not on your branch %s, but at %s", res.Branch, res.Unaccepted)
	}
	for _, name := range slices.Sorted(maps.Keys(res.Others)) {
		what := fmt.Sprintf("The sandbox's branch %q", strings.TrimPrefix(name, "refs/heads/"))
		switch {
		case name == "HEAD":
			what = "The sandbox's detached HEAD"
		case name == "refs/stash":
			what = "The sandbox's stash"
		case strings.HasPrefix(name, refname.OlderStash):
			what = "An older stash of the sandbox"
		case strings.HasPrefix(name, attemptref.Prefix):
			what = fmt.Sprintf("Attempt %q", strings.TrimPrefix(name, attemptref.Prefix))
		}
		note := what + " is at " + res.Others[name]
		if path := res.Submodules[name]; path != "" {
			note += fmt.Sprintf(": it adds or changes the submodule %q, so do not merge it or check it out", path)
		}
		notes = append(notes, note)
	}
	for _, ref := range slices.Sorted(maps.Keys(res.Refused)) {
		if res.fresh[ref] {
			add("Warning: %q of the sandbox was not fetched: %s", ref, res.Refused[ref])
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(res.Kept)) {
		add("The commits that were at %s are at %s", ref, res.Kept[ref])
	}
	if res.Emptied {
		add("Warning: the volume with the sandbox's files was removed: they are checked out again, without uncommitted changes")
	}
	if len(res.notIncluded) > 0 {
		add("Warning: only regular files are copied to the sandbox, not %s", firstOf(res.notIncluded))
	}
	if len(res.Unsent) > 0 {
		add("Warning: nested repositories are not sent to the sandbox: %s", firstOf(res.Unsent))
	}
	if res.unchecked != nil {
		add("Warning: %v", res.unchecked)
		for _, text := range hint.Of(res.unchecked) {
			add("Hint: %s", text)
		}
	}
	if len(res.GitDirs) > 0 {
		add("Warning: new git directories in the working tree: git in them runs programs that they configure: %s", firstOf(res.GitDirs))
		add("Hint: check %q before you use git there", res.GitDirs[0]+"/config")
	}
	return notes
}

// firstOf names the first of some files.
func firstOf(paths []string) string {
	const most = 5
	var names []string
	for _, path := range paths[:min(len(paths), most)] {
		names = append(names, termsafe.Name(path))
	}
	text := strings.Join(names, ", ")
	if more := len(paths) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
