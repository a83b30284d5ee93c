package manage

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// EventOptions are the options of [Events].
type EventOptions struct{ LoopLog }

// Events prints the events of a loop as they are logged, one JSON object per line, with control characters
// escaped. With Follow it returns the loop's exit code, otherwise 0. The end of the loop is printed once its commits
// have been fetched, as it is for the user.
func Events(ctx context.Context, h host.Host, opts EventOptions) (int, error) {
	wt, name, err := opts.Find(ctx, h)
	if err != nil {
		return 0, err
	}
	var offset int64
	return opts.read(ctx, h, wt, name, func(log *runlog.Reader, last bool) error {
		for {
			lines, next, err := log.EventLines(offset)
			if err != nil || next == offset {
				return err
			}
			before, end := cutEnd(lines)
			if err := printEvents(h.Stdout, before); err != nil {
				return err
			}
			if offset += int64(len(before)); offset == next {
				continue
			}
			if _, more, err := log.EventLines(next); err != nil || more == next { // otherwise it was resumed
				if err != nil || !last {
					return err
				}
				end = endOf(ctx, h, wt, name, log, end)
			}
			if err := printEvents(h.Stdout, end); err != nil {
				return err
			}
			offset = next
		}
	})
}

// cutEnd cuts the line of a loop's end from the end of lines.
func cutEnd(lines []byte) (before, end []byte) {
	at := bytes.LastIndexByte(bytes.TrimSuffix(lines, []byte("\n")), '\n') + 1
	if events := runlog.ParseEvents(lines[at:], 0); len(events) == 1 {
		if _, is := events[0].Data.(*runlog.LoopEnd); is {
			return lines[:at], lines[at:]
		}
	}
	return lines, nil
}

// endOf returns the line of a loop's end. The latest loop has not succeeded if the user's branch lacks its commits.
func endOf(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string, log *runlog.Reader, line []byte) []byte {
	loop, err := log.Reload()
	latest := runlog.Recent(h.LogsDir(name), 1, runlog.Any)
	if err != nil || len(latest) == 0 || latest[0].ID != loop.ID {
		return line
	}
	end := commits.EndOf(ctx, h, lifecycle.Sandbox{Name: name, Scope: wt.Scope, Root: wt.Root, MainRoot: wt.MainRoot}, loop)
	if end.Stop == loop.Stop {
		return line
	}
	event := runlog.ParseEvents(line, 0)[0]
	data := event.Data.(*runlog.LoopEnd)
	data.Stop, data.ExitCode, data.Error = end.Stop, end.ExitCode, end.Error
	if changed, err := json.Marshal(event); err == nil {
		line = append(changed, '\n')
	}
	return line
}

// printEvents prints lines of an event log. They are from the sandbox: what is no JSON is left out.
func printEvents(out io.Writer, lines []byte) error {
	for line := range bytes.Lines(lines) {
		if !json.Valid(line) {
			continue
		}
		if _, err := io.WriteString(out, termsafe.JSON(strings.ToValidUTF8(string(line), "\ufffd"))); err != nil {
			return err
		}
	}
	return nil
}
