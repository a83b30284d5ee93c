package manage

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// EventOptions are the options of [Events].
type EventOptions struct{ LoopLog }

// Events prints the events of a loop as they are logged, one JSON object per line, with control characters
// escaped. With Follow it returns the loop's exit code, otherwise 0.
func Events(ctx context.Context, h host.Host, opts EventOptions) (int, error) {
	wt, name, err := opts.Find(ctx, h)
	if err != nil {
		return 0, err
	}
	var offset int64
	return opts.read(ctx, h, wt, name, func(log *runlog.Reader, _ bool) error {
		for {
			lines, next, err := log.EventLines(offset)
			if err != nil || next == offset {
				return err
			}
			if err := printEvents(h.Stdout, lines); err != nil {
				return err
			}
			offset = next
		}
	})
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
