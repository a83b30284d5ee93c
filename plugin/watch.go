package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/streams"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// watchInterval is how often sandboxes are described for --watch.
const watchInterval = 2 * time.Second

// view shows sandboxes.
type view struct {
	collect func(context.Context, host.Host) ([]manage.SandboxStatus, error)
	show    func(io.Writer, []manage.SandboxStatus) error
	json    func([]manage.SandboxStatus) any // nil for another format
}

// run shows sandboxes once, or watches them.
func (v view) run(ctx context.Context, h host.Host, out *streams.Out, watch bool) error {
	if watch && out.IsTerminal() && v.json == nil {
		return v.watch(ctx, h, out, out.GetTtySize, watchInterval)
	}
	if watch {
		return v.watch(ctx, h, out, nil, watchInterval)
	}
	list, err := v.collect(ctx, h)
	if err != nil {
		return err
	}
	return v.show(out, list)
}

// watch shows sandboxes until the context ends: at a terminal in place, otherwise again
// whenever more than ages and usage has changed, as JSON in one line.
func (v view) watch(ctx context.Context, h host.Host, out io.Writer, size func() (height, width uint), every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	if size != nil {
		defer func() { _, _ = io.WriteString(out, "\n") }() // end the line on which the terminal shows ^C
	}
	draw := redraw{out: out, size: size}
	last := ""
	for {
		block, change, err := v.block(ctx, h)
		switch {
		case ctx.Err() != nil:
			return cli.StatusError{StatusCode: ExitCode}
		case err != nil:
			return err
		case size != nil:
			err = draw.draw(block)
		case change != last:
			if last != "" && v.json == nil {
				block = "\n" + block
			}
			_, err = io.WriteString(out, block)
		}
		if err != nil {
			return err
		}
		last = change
		select {
		case <-ctx.Done():
			return cli.StatusError{StatusCode: ExitCode}
		case <-tick.C:
		}
	}
}

// block describes the sandboxes, and returns a text that changes with them. An error is a part
// of the block: an engine that does not answer may do so again.
func (v view) block(ctx context.Context, h host.Host) (block, change string, err error) {
	var out, warnings bytes.Buffer
	if v.json == nil {
		h.Stderr = &warnings
	}
	list, failed := v.collect(ctx, h)
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case failed != nil:
		h.Warn(failed)
		change = failed.Error()
	case v.json != nil:
		err = json.NewEncoder(&out).Encode(v.json(list))
	default:
		err = v.show(&out, list)
	}
	out.Write(warnings.Bytes())
	return out.String(), change + warnings.String() + changeOf(list), err
}

// changeOf identifies what sandboxes do, without what changes all the time.
func changeOf(list []manage.SandboxStatus) string {
	var all []manage.SandboxStatus
	for _, s := range list {
		if s.Loop != nil {
			l := *s.Loop
			l.LastOutput, l.Run, l.Usage = nil, runlog.Usage{}, runlog.Usage{}
			s.Loop = &l
		}
		all = append(all, s)
	}
	content, err := json.Marshal(all)
	if err != nil {
		return fmt.Sprint(all)
	}
	return string(content)
}

// redraw replaces a block at a terminal.
type redraw struct {
	out   io.Writer
	size  func() (height, width uint)
	lines int // of the last block
}

func (r *redraw) draw(block string) error {
	height, width := r.size()
	lines := strings.SplitAfter(strings.TrimSuffix(block, "\n"), "\n")
	lines = lines[:min(len(lines), max(1, int(height)-1))]
	var b strings.Builder
	if r.lines > 0 {
		_, _ = fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", r.lines)
	}
	for _, line := range lines {
		b.WriteString(ansi.Truncate(strings.TrimSuffix(line, "\n"), int(width), "…") + "\n")
	}
	r.lines = len(lines)
	_, err := io.WriteString(r.out, b.String())
	return err
}
