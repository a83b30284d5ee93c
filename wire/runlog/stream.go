package runlog

import (
	"bytes"
	"fmt"
	"io"
)

// maxStream bounds the logged output of a run, in bytes.
const maxStream = 64 << 20

// Stream opens the file for the raw output of run n.
func (l *Log) Stream(n int) (io.WriteCloser, error) { return l.open(fmt.Sprintf("%d.jsonl", n)) }

// Checks opens the file for the output of the checks after run n.
func (l *Log) Checks(n int) (io.WriteCloser, error) { return l.open(fmt.Sprintf("%d.checks.log", n)) }

func (l *Log) open(file string) (io.WriteCloser, error) {
	if err := l.files.Append(file, nil); err != nil {
		return nil, fmt.Errorf("opening the log %s: %w", file, err)
	}
	return &bounded{f: appender{l.files, file}, left: int(max(0, maxStream-l.files.Size(file)))}, nil
}

// bounded writes complete lines up to its limit, then a line that says so.
type bounded struct {
	f    appender
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
