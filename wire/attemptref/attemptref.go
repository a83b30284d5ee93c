// Package attemptref names the refs of attempts: the commits and uncommitted changes of a run that are not on the branch.
package attemptref

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

const (
	// Prefix begins the refs in a sandbox. The task's ID follows, and the number of the attempt. They are branches, so
	// that every way to fetch commits brings them to the host.
	Prefix = "refs/heads/ralph-attempts/"
	// Unfetched begins the refs that the host does not fetch: it would refuse them again and again.
	Unfetched = "refs/ralph/refused/"
	// BegunFile records in the git directory of a sandbox's clone the run whose uncommitted changes were not set aside yet.
	BegunFile = "ralph-run"
)

// maxTask limits the task in a ref, in bytes. A longer one is cut.
const maxTask = 200

// ID is an attempt at a task.
type ID struct {
	Task string
	N    int // from 1
}

// Ref returns a ref for an attempt that no other ref is in the way of. A second one with the same number gets a suffix.
func (id ID) Ref(prefix string, others []string) string {
	name := prefix + escape(id.Task, !strings.Contains("/"+id.Task+"/", "//"))
	if inside(name, others) {
		name = prefix + escape(id.Task, false)
	}
	name += "/" + strconv.Itoa(max(id.N, 1))
	ref := name
	for i := 2; conflicts(ref, others); i++ {
		ref = name + "-" + strconv.Itoa(i)
	}
	return ref
}

// inside reports whether one of the refs is name, or a directory above it: git has no ref below another.
func inside(name string, refs []string) bool {
	for _, ref := range refs {
		if strings.HasPrefix(name+"/", ref+"/") {
			return true
		}
	}
	return false
}

// conflicts reports whether a ref exists, or one above or below it.
func conflicts(ref string, others []string) bool {
	for _, other := range others {
		if strings.HasPrefix(other, ref+"/") {
			return true
		}
	}
	return inside(ref, others)
}

// Task returns the task that a ref with that prefix is named after.
func Task(prefix, ref string) (task string, ok bool) {
	name, ok := strings.CutPrefix(ref, prefix)
	end := strings.LastIndex(name, "/")
	if !ok || end <= 0 {
		return "", false
	}
	task, err := url.PathUnescape(name[:end])
	return task, err == nil
}

// escape returns a task's ID in the characters that every ref can have.
func escape(task string, slashes bool) string {
	var b strings.Builder
	for _, c := range []byte(task) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '/' && slashes:
			b.WriteByte(c)
		default:
			_, _ = fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > maxTask {
		return strings.TrimRight(b.String()[:maxTask], "/%0123456789ABCDEF")
	}
	return b.String()
}
