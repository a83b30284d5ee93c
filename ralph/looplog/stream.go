package looplog

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// maxStream bounds what is kept of one run, in bytes.
	maxStream = 64 << 20
	// keptLoops is how many loops stay in a work tree.
	keptLoops = 50
	// keptFor protects young loops, which may still run.
	keptFor = 24 * time.Hour
)

// Stream opens the file for the raw output of run n.
func (l *Log) Stream(n int) (io.WriteCloser, error) { return l.open(fmt.Sprintf("%d.jsonl", n)) }

// Checks opens the file for the output of the checks after run n.
func (l *Log) Checks(n int) (io.WriteCloser, error) { return l.open(fmt.Sprintf("%d.checks.log", n)) }

func (l *Log) open(file string) (io.WriteCloser, error) {
	f, err := l.root.OpenFile(l.name(file), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log %s: %w", l.name(file), err)
	}
	return &bounded{f: f, left: maxStream}, nil
}

// bounded writes until its bound is reached, then nothing more. It ends with
// a whole line and one that says so.
type bounded struct {
	f    *os.File
	left int
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.full {
		return len(p), nil
	}
	part := p
	if len(part) > b.left {
		b.full = true
		part = part[:b.left]
		part = part[:bytes.LastIndexByte(part, '\n')+1]
	}
	n, err := b.f.Write(part)
	b.left -= n
	if err == nil && b.full {
		_, err = fmt.Fprintf(b.f, "\n{\"type\":\"ralph\",\"subtype\":\"truncated\",\"after_bytes\":%d}\n", maxStream)
	}
	if err != nil {
		b.full = true
		return n, err
	}
	return len(p), nil
}

func (b *bounded) Close() error { return b.f.Close() }

// prune removes the oldest loops beyond what is kept. What cannot be removed
// stays: a log is no reason not to work.
func (l *Log) prune() {
	all := loops(l.root)
	for _, id := range all[:max(0, len(all)-keptLoops)] {
		old := Log{root: l.root, Loop: Loop{ID: id}}
		if info, err := l.root.Stat(old.Dir()); err == nil && time.Since(info.ModTime()) > keptFor {
			_ = l.root.RemoveAll(old.Dir())
		}
	}
}
