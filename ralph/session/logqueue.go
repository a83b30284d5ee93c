package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

const (
	// maxBatch bounds the data of one request, which a slow connection has to transfer in time, and maxChunk that of
	// a part in the queue, in bytes.
	maxBatch = 1 << 20
	maxChunk = 256 << 10
	// maxState bounds a file that is replaced, in bytes.
	maxState = 1 << 20
	// maxMemory bounds the queue in memory. The rest is in a file.
	maxMemory = 4 << 20
)

// agentOutput matches the files with the output of an agent.
var agentOutput = lazyregexp.New(`^[0-9]+\.jsonl$`)

// logQueue are the files of a log. What is written to them waits in order until the host has it.
type logQueue struct {
	loop    string
	filled  chan struct{} // there is something to send
	urgent  chan struct{} // it should be sent now
	stopped chan struct{} // closed when nothing is sent any more

	mu        sync.Mutex
	chunks    []*logChunk
	sending   int              // the first ones, which no longer change
	sizes     map[string]int64 // of the files, with what is queued
	delivered map[string]int64 // what the host has
	memory    int              // bytes of the chunks that are in memory
	spool     spool
	full      map[string]bool // files whose output is dropped

	lost            error // of the last attempt
	losses, answers int
	refused         error // by the host
	changed         chan struct{}
}

// logChunk is a queued part of a file.
type logChunk struct {
	file    string
	replace bool
	size    int
	data    []byte // nil in the spool
	at      int64  // its offset there
}

var _ runlog.Files = (*logQueue)(nil)

func newLogQueue(loop string, sizes map[string]int64) *logQueue {
	q := &logQueue{
		loop: loop, filled: make(chan struct{}, 1), urgent: make(chan struct{}, 1), stopped: make(chan struct{}),
		sizes: map[string]int64{}, delivered: map[string]int64{}, full: map[string]bool{}, changed: make(chan struct{}),
		spool: spool{max: maxSpool},
	}
	maps.Copy(q.sizes, sizes)
	maps.Copy(q.delivered, sizes)
	return q
}

// Size implements [runlog.Files].
func (q *logQueue) Size(file string) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sizes[file]
}

// Append implements [runlog.Files].
func (q *logQueue) Append(file string, p []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, exists := q.sizes[file]; !exists {
		q.sizes[file] = 0
		q.push(&logChunk{file: file})
	}
	for part := range slices.Chunk(p, maxChunk) {
		q.append(file, part)
	}
	signal(q.filled)
	return nil
}

// append queues a part. If there is no room, the output of an agent is dropped.
func (q *logQueue) append(file string, p []byte) {
	if q.full[file] {
		return
	}
	q.sizes[file] += int64(len(p))
	if q.memory+len(p) > maxMemory {
		at, err := q.spool.write(p)
		if err == nil {
			q.pushSpooled(file, at, len(p))
			return
		}
		if agentOutput().MatchString(file) {
			q.full[file] = true
			p = fmt.Appendf(nil, "\n{\"type\":\"ralph\",\"subtype\":\"truncated\",\"after_bytes\":%d}\n", q.sizes[file]-int64(len(p)))
		}
	}
	q.memory += len(p)
	if last := q.last(); last != nil && last.file == file && last.data != nil && last.size+len(p) <= maxChunk {
		last.data = append(last.data, p...)
		last.size += len(p)
		return
	}
	q.push(&logChunk{file: file, size: len(p), data: slices.Clone(p)})
}

// pushSpooled queues a part that is in the spool.
func (q *logQueue) pushSpooled(file string, at int64, size int) {
	last := q.last()
	if last != nil && last.file == file && last.data == nil && last.size > 0 && last.at+int64(last.size) == at && last.size+size <= maxChunk {
		last.size += size
		return
	}
	q.push(&logChunk{file: file, size: size, at: at})
}

func (q *logQueue) push(c *logChunk) { q.chunks = append(q.chunks, c) }

// last returns the last chunk that can still change, if any.
func (q *logQueue) last() *logChunk {
	if len(q.chunks) == q.sending {
		return nil
	}
	return q.chunks[len(q.chunks)-1]
}

// Replace implements [runlog.Files]. An earlier content that was not sent is forgotten.
func (q *logQueue) Replace(file string, content []byte) error {
	if len(content) > maxState {
		return errors.New("too long")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	former := slices.IndexFunc(q.chunks[q.sending:], func(c *logChunk) bool { return c.replace && c.file == file })
	if former >= 0 {
		former += q.sending
		q.memory -= q.chunks[former].size
		q.chunks = slices.Delete(q.chunks, former, former+1)
	}
	q.memory += len(content)
	q.push(&logChunk{file: file, replace: true, size: len(content), data: slices.Clone(content)})
	signal(q.filled)
	if !strings.HasPrefix(file, "now.") {
		signal(q.urgent)
	}
	return nil
}

// signal wakes the sender.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // it was woken
	}
}

// next returns the next parts to send, one for each file, and whether there are more.
func (q *logQueue) next() (parts []logPart, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := 0
	at := map[string]int{}
	for _, c := range q.chunks {
		if size += c.size; size > maxBatch && q.sending > 0 {
			break
		}
		q.sending++
		i, found := at[c.file]
		if !found {
			i = len(parts)
			at[c.file] = i
			parts = append(parts, logPart{File: c.file, Replace: c.replace, Offset: q.delivered[c.file]})
		}
		data, err := q.content(c)
		if err != nil {
			q.refused = cmp.Or(q.refused, err)
			continue
		}
		if c.replace {
			parts[i].Data, parts[i].Offset = data, 0
		} else {
			parts[i].Data = append(parts[i].Data, data...)
		}
	}
	return parts, q.sending < len(q.chunks)
}

func (q *logQueue) content(c *logChunk) ([]byte, error) {
	if c.data != nil || c.size == 0 {
		return c.data, nil
	}
	return q.spool.read(c.at, c.size)
}

// sent removes the parts that the host has answered.
func (q *logQueue) sent(parts []logPart, written logWritten, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.chunks[:q.sending] {
		if c.data != nil {
			q.memory -= c.size
		}
	}
	q.chunks = slices.Delete(q.chunks, 0, q.sending)
	q.sending = 0
	if len(q.chunks) == 0 {
		q.spool.reset()
	}
	if err != nil {
		q.refused = cmp.Or(q.refused, err)
	}
	for _, p := range parts {
		failure, failed := written.Failed[p.File]
		switch {
		case failed:
			q.refused = cmp.Or(q.refused, error(&remoteError{text: failure.Error}))
			q.delivered[p.File] = failure.Size
		case err == nil && !p.Replace:
			q.delivered[p.File] += int64(len(p.Data))
		}
	}
	q.lost = nil
	q.answers++
	q.notify()
}

// lose records that the host is away.
func (q *logQueue) lose(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost = err
	q.losses++
	q.notify()
}

// notify wakes those who wait for a change.
func (q *logQueue) notify() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// hurry has the queue sent now.
func (q *logQueue) hurry() { signal(q.urgent) }

// queueState is the state of a queue, until changed is closed.
type queueState struct {
	empty           bool
	lost            error
	losses, answers int
	changed         <-chan struct{}
}

func (q *logQueue) state() queueState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return queueState{empty: len(q.chunks) == 0, lost: q.lost, losses: q.losses, answers: q.answers, changed: q.changed}
}

// takeRefused returns the first error of the host since the last call.
func (q *logQueue) takeRefused() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.refused
	q.refused = nil
	if err != nil {
		return fmt.Errorf("sending the log to the host: %w", err)
	}
	return nil
}
