package loop

import (
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// maxWriting bounds the calls that wait for their results.
const maxWriting = 50

// startWrite remembers a call that changes a file. Agents try commands that may fail; files
// they mean to change.
func (o *outcome) startWrite(call event.Tool) {
	if !slices.Contains([]string{"Write", "Edit", "MultiEdit", "NotebookEdit"}, call.Name) {
		return
	}
	o.writing = append(o.writing, call)
	o.writing = o.writing[max(0, len(o.writing)-maxWriting):]
}

// endWrite records that such a call failed. One that succeeds later repairs it.
func (o *outcome) endWrite(result event.ToolResult) {
	i := slices.IndexFunc(o.writing, func(call event.Tool) bool { return call.ID == result.ID })
	if i < 0 {
		return
	}
	call := o.writing[i]
	o.writing = slices.Delete(o.writing, i, i+1)
	o.unwritten = ""
	if result.Failed {
		file := firstLine(call.Detail)
		o.unwritten = termsafe.Line(cut(strings.TrimSpace(call.Name+" "+file) + ": " + brief(result.Text)))
	}
}
