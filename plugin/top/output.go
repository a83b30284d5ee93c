package top

import (
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// outputMax bounds the output that is kept, in bytes.
const outputMax = 64 << 10

// output is the end of the output of a sandbox's loop.
type output struct {
	sandbox, id, logs string
	log               *runlog.Reader // nil before it is found
	at                runlog.Cursor
	end               []byte
	cut               bool
}

func outputOf(s manage.SandboxStatus) *output {
	o := &output{sandbox: s.Name, logs: s.Logs}
	if s.Loop != nil {
		o.id = s.Loop.ID
	}
	return o
}

// Write keeps the end of what is written.
func (o *output) Write(p []byte) (int, error) {
	o.end = append(o.end, p...)
	if over := len(o.end) - outputMax; over > 0 {
		o.end, o.cut = append([]byte(nil), o.end[over:]...), true
	}
	return len(p), nil
}

// read reads new output, and returns all lines that are kept. It is from the sandbox.
func (o *output) read() []string {
	if o.id == "" {
		return nil
	}
	if o.log == nil {
		log, err := runlog.Find(o.logs, func(l runlog.Loop) bool { return termsafe.Line(l.ID) == o.id })
		if err != nil {
			return nil
		}
		o.log = log
	}
	at, err := o.log.Copy(o, runlog.Rendered, o.at)
	o.at = at
	if err != nil && len(o.end) == 0 {
		return []string{"Error: " + termsafe.Line(err.Error())}
	}
	text := strings.ReplaceAll(termsafe.Strip(string(o.end)), "\t", "    ")
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if o.cut && len(lines) > 1 {
		lines = lines[1:] // incomplete
	}
	return lines
}

func (o *output) close() {
	if o.log != nil {
		o.log.Close()
		o.log = nil
	}
}
