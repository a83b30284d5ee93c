// Package leftoverref names the refs of uncommitted changes that a loop has set aside.
package leftoverref

import (
	"fmt"
	"net/url"
	"strings"
)

// Prefix begins the refs in a sandbox. The task's ID follows, and the commit. They are branches,
// so that every way to fetch commits brings them to the host.
const Prefix = "refs/heads/ralph-leftover/"

// maxTask limits the task in a ref, in bytes. A longer one is cut.
const maxTask = 200

// shortHash is the length of the commit in a ref.
const shortHash = 7

// Name returns the ref for a commit of a task.
func Name(task, commit string) string {
	name := escape(task)
	if len(name) > maxTask {
		name = strings.TrimRight(name[:maxTask], "/%0123456789ABCDEF")
	}
	return Prefix + name + "-" + commit[:min(len(commit), shortHash)]
}

// Task returns the task that a ref is named after.
func Task(ref string) (task string, ok bool) {
	name, ok := strings.CutPrefix(ref, Prefix)
	if !ok || len(name) <= shortHash+1 {
		return "", false
	}
	task, err := url.PathUnescape(name[:len(name)-shortHash-1])
	return task, err == nil
}

// escape returns a task's ID in the characters that every ref can have.
func escape(task string) string {
	slashes := !strings.Contains("/"+task+"/", "//")
	var b strings.Builder
	for _, c := range []byte(task) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '/' && slashes:
			b.WriteByte(c)
		default:
			_, _ = fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
